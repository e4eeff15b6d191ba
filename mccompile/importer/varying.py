"""The operators that may have extents which are known at run time only: those whose front ends were read for it.

A front end that makes a table of a shape, or a loop of its own over an axis, would take the bound of the extent for
the extent. Such operators are refused until they are looked at.
"""

_ELEMENTWISE = """
    Abs Acos Acosh Add And Asin Asinh Atan Atanh Cast CastLike Ceil Celu Clip Cos Cosh Div Elu Equal Erf Exp Floor
    Gelu Greater GreaterOrEqual HardSigmoid HardSwish Identity IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Min
    Mish Mod Mul Neg Not Or PRelu Pow Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign
    Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu Where Xor
"""
_COMBINING = """
    ArgMax ArgMin AveragePool BatchNormalization Conv CumSum GRU Gemm GlobalAveragePool GlobalMaxPool GridSample
    Hardmax InstanceNormalization LSTM LayerNormalization LogSoftmax MatMul MaxPool NonMaxSuppression
    RMSNormalization RNN ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd
    ReduceSum ReduceSumSquare Softmax TopK
"""
_MOVING = """
    Concat ConstantOfShape DepthToSpace Expand Flatten Gather GatherElements GatherND NonZero Range Reshape
    ScatterND Slice SpaceToDepth Split Squeeze Tile Transpose Unsqueeze
"""

TAKES_EXTENTS = frozenset(f"{_ELEMENTWISE} {_COMBINING} {_MOVING}".split())
