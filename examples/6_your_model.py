"""Your own network: any torch module that says how far it sees trains and runs like ours."""

import tempfile

import torch
from torch import nn

import fino
from fino.model.convolution import Convolution
from fino.model.network import NetworkSettings


class TwoStencilsSettings(NetworkSettings):
    width: int = 8


class TwoStencils(nn.Module):
    """(b, inputs, *space) → (b, outputs, *space)"""

    def __init__(self, **settings):
        super().__init__()
        self.settings = s = TwoStencilsSettings(**settings)
        self.first = Convolution(s.inputs, s.width, (1,) * s.dims, s.boundaries)
        self.second = Convolution(s.width, s.outputs, (1,) * s.dims, s.boundaries)

    @property
    def locality(self):
        return self.first.locality.then(self.second.locality)

    def forward(self, u):
        return self.second(torch.tanh(self.first(u)))


fino.MODELS["two-stencils"] = TwoStencils
data = fino.generate("advection", 20, points=64, frames=16, duration=0.2, beta=1.0, stride_space=2)
run = fino.fit(fino.build("two-stencils", data), data, steps=20, out=tempfile.mkdtemp() + "/mine")
print(f"sees {run.model.locality.radius[0]} cells;", fino.evaluate(run)["nrmse"])
