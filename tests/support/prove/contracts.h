/* What the functions of mcc.c ask for and promise, for WP: `make prove`. It is included in front of mcc.c. Functions
 * write nothing but what `assigns` says, read nothing that is not \valid_read, and what they ensure is proved of their
 * code, for blobs of any size and content. */
#include <stdbool.h>

#include "mcc.h"

/*@
  axiomatic Words {
    logic uint32_t word{L}(uint8_t *b) reads b[0 .. 3];
  }

  // Offset and bytes, at `field`, of a section between the header and `end`.
  predicate inside{L}(uint8_t *field, integer end) =
    MCC_BLOB_HEADER_BYTES <= word(field) && word(field) + word(field + 4) <= end;

  // A blob whose header fits together, and of which all bytes can be read.
  predicate whole{L}(uint8_t *b) =
    \valid_read(b + (0 .. MCC_BLOB_HEADER_BYTES - 1)) &&
    \valid_read(b + (0 .. word(b + MCC_BLOB_OFF_BLOB_BYTES) - 1)) &&
    inside(b + MCC_BLOB_OFF_PAYLOAD_OFFSET, word(b + MCC_BLOB_OFF_BLOB_BYTES)) &&
    inside(b + MCC_BLOB_OFF_DIRECTORY_OFFSET, word(b + MCC_BLOB_OFF_BLOB_BYTES));

  predicate null_or_readable{L}(uint8_t *b, integer bytes) = b == \null || \valid_read(b + (0 .. bytes - 1));

  // What mcc_blob_dir_next has not given yet lies in the blob.
  predicate entries_left{L}(mcc_blob_dir *d) =
    whole((uint8_t *)d->blob) &&
    MCC_BLOB_HEADER_BYTES <= d->next <= d->end <= word((uint8_t *)d->blob + MCC_BLOB_OFF_BLOB_BYTES);
*/

/*@
  requires \valid_read((uint8_t *)data + (0 .. bytes - 1));
  assigns \nothing;
*/
uint32_t mcc_crc32(uint32_t crc, const void *data, size_t bytes);

/* `word` is what this function reads; that it is a function of the four bytes is all that is used of it. */
/*@
  requires \valid_read(b + (0 .. 3));
  assigns \nothing;
  admit ensures \result == word(b);
*/
static uint32_t read_u32(const uint8_t *b);

/*@
  requires \valid_read(b + (0 .. 1));
  assigns \nothing;
  ensures \result <= 0xFFFF;
*/
static uint32_t read_u16(const uint8_t *b);

/*@
  assigns \nothing;
*/
static bool host_is_little_endian(void);

/*@
  requires \valid_read(field + (0 .. 7));
  assigns \nothing;
  ensures \result != 0 ==> inside((uint8_t *)field, end);
*/
static bool is_inside(const uint8_t *field, uint32_t end);

/*@
  requires null_or_readable((uint8_t *)b, blob_bytes);
  assigns \nothing;
  ensures \result == MCC_OK ==> b != \null && whole((uint8_t *)b) &&
    word((uint8_t *)b + MCC_BLOB_OFF_BLOB_BYTES) <= blob_bytes;
*/
static mcc_status check_header(const uint8_t *b, size_t blob_bytes);

/*@
  assigns \nothing;
  ensures \result == MCC_OK ==> p != \null;
*/
mcc_status mcc_pointer_check(const void *p, uint32_t align);

/*@
  requires null_or_readable((uint8_t *)blob, blob_bytes);
  requires payload == \null || \valid(payload);
  requires expect == \null || \valid_read(expect);
  requires \separated(payload, expect, (uint8_t *)blob + (0 .. blob_bytes - 1));
  assigns *payload;
  ensures \result == MCC_OK ==> whole((uint8_t *)blob) &&
    *payload == (uint8_t *)blob + word((uint8_t *)blob + MCC_BLOB_OFF_PAYLOAD_OFFSET) &&
    \valid_read((uint8_t *)*payload + (0 .. expect->payload_bytes - 1));
*/
mcc_status mcc_blob_check(const void *blob, size_t blob_bytes, const mcc_blob_expect *expect, const void **payload);

/*@
  requires null_or_readable((uint8_t *)blob, blob_bytes);
  assigns \nothing;
*/
mcc_status mcc_blob_verify(const void *blob, size_t blob_bytes);

/*@
  requires null_or_readable((uint8_t *)blob, blob_bytes);
  requires dir == \null || \valid(dir);
  requires \separated(dir, (uint8_t *)blob + (0 .. blob_bytes - 1));
  assigns *dir;
  ensures \result == MCC_OK ==> entries_left(dir);
*/
mcc_status mcc_blob_dir_open(const void *blob, size_t blob_bytes, mcc_blob_dir *dir);

/*@
  requires dir == \null || (\valid(dir) && entries_left(dir));
  requires t == \null || \valid(t);
  requires dir == \null ||
    \separated(dir, t, (uint8_t *)dir->blob + (0 .. word((uint8_t *)dir->blob + MCC_BLOB_OFF_BLOB_BYTES) - 1));
  assigns *t, dir->next;
  ensures left: \result == MCC_OK ==> entries_left(dir);
  ensures data: \result == MCC_OK ==> \valid_read((uint8_t *)t->data + (0 .. t->bytes - 1));
  ensures dims: \result == MCC_OK ==> \valid_read(t->dims + (0 .. 4 * t->rank - 1));
*/
mcc_status mcc_blob_dir_next(mcc_blob_dir *dir, mcc_blob_tensor *t);

/*@
  requires \valid_read(t) && \valid_read(t->dims + (0 .. 4 * t->rank - 1));
  assigns \nothing;
*/
uint32_t mcc_blob_dim(const mcc_blob_tensor *t, uint32_t axis);
