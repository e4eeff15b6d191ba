/* The functions of mcc.c that WP is not asked about, for Eva: bits, the bytes of a number, and a
 * walk over a text. */
#include "__fc_builtin.h"

#include "mcc.c"

int main(void)
{
    const char *text = mcc_status_text((mcc_status)Frama_C_unsigned_int_interval(0u, 0xFFFFFFFFu));
    uint8_t bytes[2];

    Frama_C_make_unknown((char *)bytes, sizeof bytes);
    const uint32_t number = read_u16(bytes);
    /*@ check number <= 0xFFFF; */
    return (number > 0u) && (text[0] != '\0') && host_is_little_endian();
}
