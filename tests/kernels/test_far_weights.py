"""Weights that do not stay in a cache: they are asked for early, and choices count the way that they come."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from mccompile import driver
from mccompile.driver import Options
from mccompile.kernels.conv_winograd import VARIANTS
from mccompile.kernels.tiles import fits
from mccompile.targets.target import resolve
from tests.kernels.cases import VariantCase, matmul, pointwise
from tests.kernels.cases_conv_channels import channels
from tests.kernels.cases_winograd import winograd
from tests.kernels.test_winograd import Layer
