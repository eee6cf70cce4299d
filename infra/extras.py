"""Which extra of the package brings a library that is missing (pyproject.toml)."""

from __future__ import annotations

from infra.errors import UserError

EXTRAS = {
    "elasticsearch": "elasticsearch",
    "fastapi": "serve",
    "gensim": "train",
    "huggingface_hub": "train",
    "matplotlib": "train",
    "mlflow": "mlflow",
    "onnx": "onnx",
    "onnxruntime": "onnx",
    "onnxscript": "onnx",
    "opencc": "simplify",
    "prefect": "server",
    "prometheus_client": "serve",
    "PyCMeKG": "demo",
    "pylopdf_fonts_zh_cn": "documents",
    "pypdfium2": "documents",
    "pypinyin": "pinyin",
    "ray": "ray",
    "s3fs": "s3",
    "sklearn": "train",
    "sqlalchemy": "sql",
    "tensorboardX": "train",
    "torch": "train",
    "transformers": "train",
    "uvicorn": "serve",
}
"""Extra by top-level module."""


def explained(error: ModuleNotFoundError) -> UserError | None:
    """Return an error that names the extra to install, or None if the missing module belongs to none."""
    module = (error.name or "").partition(".")[0]
    if module not in EXTRAS:
        return None
    extra = EXTRAS[module]
    return UserError(
        f"This needs the package {module}, which is not installed. Install the extra {extra}: "
        f"pip install 'yiwen[{extra}]' (everything: 'yiwen[all]')."
    )
