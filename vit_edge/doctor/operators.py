"""Which operators the execution providers have: data, from onnxruntime's own tables.

NNAPI and CoreML (MLProgram): `onnxruntime/tools/mobile_helpers/*.md` in the wheel 1.32. XNNPACK and QNN:
https://onnxruntime.ai/docs/execution-providers/. WebGPU: `core/providers/webgpu/webgpu_execution_provider.cc`.
XNNPACK's MatMul is left out: it takes two dimensions, and a transformer's have three or four.
"""

__all__ = ["COREML", "NNAPI", "QNN", "WEBGPU", "XNNPACK"]


def _names(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


NNAPI = _names(
    """Abs Add AveragePool BatchNormalization Cast Clip Concat Constant Conv DepthToSpace DequantizeLinear Div Elu Exp
    Flatten Floor Gather Gemm GlobalAveragePool GlobalMaxPool Identity LeakyRelu Log LRN MatMul MaxPool Max Min Mul Neg
    Pad Pow PRelu QLinearConv QLinearMatMul QuantizeLinear ReduceMean Relu Reshape Resize Sigmoid Sin Slice Softmax
    Split Sqrt Squeeze Sub Tanh Transpose Unsqueeze com.microsoft::QLinearAdd com.microsoft::QLinearAveragePool
    com.microsoft::QLinearSigmoid"""
)
COREML = _names(
    """Add And ArgMax AveragePool Cast Ceil Clip Concat Constant Conv ConvTranspose Cos DepthToSpace Div Elu Erf Exp
    GatherND Gelu Gemm GlobalAveragePool GlobalMaxPool GridSample GroupNormalization HardSigmoid Identity
    InstanceNormalization LayerNormalization LeakyRelu MatMul MaxPool Max Mul Pow PRelu Reciprocal ReduceSum ReduceMean
    ReduceMax Relu Reshape Resize Round Shape Sin Slice Softplus Split Sub Sigmoid Softmax Sqrt Squeeze Tanh Tile
    Transpose Unsqueeze Where com.microsoft::QuickGelu com.microsoft::FusedConv"""
)
XNNPACK = _names(
    """AveragePool Constant Conv ConvTranspose Gemm MaxPool QLinearConv Resize Softmax com.microsoft::QLinearAveragePool
    com.microsoft::QLinearSoftmax com.microsoft::QLinearConvTranspose"""
)
QNN = _names(
    """Abs Add And ArgMax ArgMin Asin Atan AveragePool BatchNormalization Cast Clip Concat Constant Conv ConvTranspose
    Cos DepthToSpace DequantizeLinear Div Elu Equal Exp Expand Flatten Floor Gather Gelu Gemm GlobalAveragePool Greater
    GreaterOrEqual GridSample HardSwish InstanceNormalization LRN LayerNormalization LeakyRelu Less LessOrEqual Log
    LogSoftmax LpNormalization MatMul Max MaxPool Min Mul Neg Not Or PRelu Pad Pow QuantizeLinear ReduceMax ReduceMean
    ReduceMin ReduceProd ReduceSum Relu Resize Reshape Round Sigmoid Sign Sin Slice Softmax SpaceToDepth Split Sqrt
    Squeeze Sub Tanh Tile TopK Transpose Unsqueeze Where com.microsoft::DequantizeLinear com.microsoft::Gelu
    com.microsoft::QuantizeLinear"""
)
WEBGPU = _names(
    """Abs Acos Acosh Add ArgMax ArgMin Asin Asinh Atan Atanh AveragePool BatchNormalization Cast Ceil Clip Concat
    Constant Conv ConvTranspose Cos Cosh CumSum DepthToSpace DequantizeLinear Div Einsum Elu Equal Erf Exp Expand
    Flatten Floor Gather GatherElements Gelu Gemm GlobalAveragePool GlobalMaxPool Greater GreaterOrEqual HardSigmoid If
    InstanceNormalization LayerNormalization LeakyRelu Less LessOrEqual Log MatMul MaxPool Mul Neg Not Pad Pow Range
    Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
    ReduceSumSquare Relu Reshape Resize Shape Sigmoid Sin Sinh Slice Softmax Split Sqrt Squeeze Sub Tan Tanh
    ThresholdedRelu Tile Transpose Unsqueeze Where com.microsoft::Attention com.microsoft::FastGelu com.microsoft::Gelu
    com.microsoft::MatMulNBits com.microsoft::MultiHeadAttention com.microsoft::QuickGelu
    com.microsoft::SkipLayerNormalization"""
)
