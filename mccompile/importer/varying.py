"""The operators that may have extents which are known at run time only: those whose front ends were read for it.

A front end that makes a table of a shape, or a loop of its own over an axis, would take the bound of the extent for
the extent. Such operators are refused until they are looked at; tests/ops/test_run_time_extents.py draws such cases.
"""

_ELEMENTWISE = """
    Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast CastLike
    Ceil Celu Clip Cos Cosh Div Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual HardSigmoid HardSwish Identity
    IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Mean Min Mish Mod Mul Neg Not Or PRelu Pow Reciprocal Relu Round
    Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu Where Xor
    Affine ImageScaler ParametricSoftplus ScaledTanh BiasAdd BiasDropout BiasGelu BiasSplitGelu FastGelu QuickGelu
    Binarizer Imputer LabelEncoder Scaler
"""
_QUANTISED = """
    ConvInteger DequantizeLinear DynamicQuantizeLSTM DynamicQuantizeLinear DynamicQuantizeMatMul
    GatherBlockQuantized MatMulBnb4 MatMulInteger MatMulIntegerToFloat MatMulNBits QAttention
    QEmbedLayerNormalization QGemm QLinearAdd QLinearAveragePool QLinearConcat QLinearConv QLinearGlobalAveragePool
    QLinearLeakyRelu QLinearMatMul QLinearMul QLinearReduceMean QLinearSigmoid QLinearSoftmax QLinearWhere
    QuantizeLinear
"""
_COMBINING = """
    AffineGrid ArgMax ArgMin AveragePool BatchNormalization Col2Im Conv ConvTranspose CumProd CumSum DFT DeformConv
    Det Einsum GRU Gemm GlobalAveragePool GlobalLpPool GlobalMaxPool GridSample GroupNormalization Hardmax
    InstanceNormalization LRN LSTM LayerNormalization LogSoftmax LpNormalization LpPool MatMul MaxPool MaxRoiPool
    MaxUnpool MeanVarianceNormalization NonMaxSuppression RMSNormalization RNN ReduceL1 ReduceL2 ReduceLogSum
    ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare RoiAlign STFT
    SimplifiedLayerNormalization Softmax TopK Attention BiasSoftmax CDist ConvTransposeWithDynamicPads
    EmbedLayerNormalization FusedConv FusedGemm FusedMatMul FusedMatMulActivation GemmFastGelu GroupNorm
    GroupQueryAttention Inverse MultiHeadAttention NhwcConv NhwcFusedConv NhwcMaxPool RotaryEmbedding SkipGroupNorm
    SkipLayerNormalization SkipSimplifiedLayerNormalization TransposeMatMul LinearClassifier LinearRegressor
    Normalizer SVMClassifier SVMRegressor TreeEnsemble TreeEnsembleClassifier TreeEnsembleRegressor
"""
_MOVING = """
    BitCast Compress Concat ConstantOfShape Crop DepthToSpace Expand ExpandDims EyeLike Flatten Gather
    GatherElements GatherND NonZero OneHot Pad Range Reshape Resize ReverseSequence ScatterElements ScatterND Slice
    SpaceToDepth Split Squeeze TensorScatter Tile TorchEmbedding Transpose Trilu UnfoldTensor Unique Unsqueeze
    ArrayFeatureExtractor FeatureVectorizer OneHotEncoder
"""
_TEXT = """
    CategoryMapper RegexFullMatch StringConcat StringNormalizer StringSplit TfIdfVectorizer Tokenizer
"""

TAKES_EXTENTS = frozenset(f"{_ELEMENTWISE} {_QUANTISED} {_COMBINING} {_MOVING} {_TEXT}".split())
