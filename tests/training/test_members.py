"""An ensemble is one model: its members are trained on their own errors, it is their mean."""

import numpy as np
import pytest
import torch

import fino
from fino.metrics import nrmse


@pytest.fixture(scope="module")
def data():
    draw = np.random.default_rng(0)
    x = np.arange(32) - np.arange(10)[:, None]
    u = sum(
        draw.uniform(0.5, 1, (40, 1, 1))
        * np.sin(2 * np.pi * k * x / 32 + draw.uniform(0, 6, (40, 1, 1)))
        for k in (1, 2)
    )
    return fino.from_array(u[:, :, None], dt=0.1, extent=(0, 1), boundary="periodic", history=2)


def single(data, **shape):
    return fino.build("fino", data, predict="increment", history=2, width=8, **shape)


@pytest.mark.parametrize("shape", [{"levels": 0, "blocks": 2}, {"levels": 1}, {"levels": 0}])
def test_an_ensemble_is_the_mean_of_members_that_differ(data, shape):
    model = single(data, **shape).with_members(3).eval()
    start = data.test.begin([0], 2)[0]
    each = model.each(start)
    assert len(each) == 3 and not torch.allclose(each[0], each[1])
    torch.testing.assert_close(model(start), torch.stack(each).mean(0))
    assert model.locality == single(data, **shape).locality
    alone = single(data, **shape)
    assert alone.members == 1 and len(alone.each(start)) == 1


def test_every_member_learns_and_the_mean_is_no_worse_than_the_best(data, tmp_path):
    model = single(data, levels=0, blocks=2)
    run = fino.fit(
        model, data, members=3, steps=150, batch=8, horizon=1, threads=1, out=tmp_path / "run"
    )
    assert run.model.members == 3 and fino.load(tmp_path / "run" / "model").members == 3
    given, future = data.test.begin(range(len(data.test)), 2)
    with torch.no_grad():
        alone = [float(nrmse(u[:, None], future[:, :1]).mean()) for u in run.model.each(given)]
        mean = float(nrmse(run.model(given)[:, None], future[:, :1]).mean())
        before = single(data, levels=0, blocks=2).with_members(3)
        untrained = float(nrmse(before(given)[:, None], future[:, :1]).mean())
    assert max(alone) < 0.5 * untrained
    assert mean <= 1.02 * min(alone)
    again = fino.load(tmp_path / "run" / "model")
    torch.testing.assert_close(again(given), run.model(given))
    whole = fino.rollout(run, data.test[0], 3)
    torch.testing.assert_close(fino.rollout(run, data.test[0], 3, tile=16), whole)


def test_resuming_an_ensemble_is_exact(data, tmp_path):
    ways = {"batch": 4, "horizon": 2, "grow_from": 0.0, "threads": 1, "validations": 2}
    whole = fino.fit(single(data, levels=1), data, members=2, steps=6, out=tmp_path / "a", **ways)

    class Enough(Exception):
        pass

    def stop(happened):
        if happened.step == 3:
            raise Enough

    with pytest.raises(Enough):
        fino.fit(
            single(data, levels=1),
            data,
            members=2,
            steps=6,
            out=tmp_path / "b",
            checkpoint_seconds=0,
            progress=stop,
            **ways,
        )
    from fino.training.fit import resume

    again = resume(tmp_path / "b", data)
    for a, b in zip(whole.model.parameters(), again.model.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)
    assert again.model.trust == whole.model.trust
    assert fino.load(tmp_path / "b" / "model").trust == whole.model.trust


def test_mistakes_are_answered_in_one_line(data):
    fno = fino.build("fno", data, predict="increment", history=2, width=4, modes=4)
    with pytest.raises(ValueError, match="fno has no members"):
        fino.fit(fno, data, members=3, steps=1)
    with pytest.raises(ValueError, match="an ensemble of 3 members is not exported yet"):
        from fino.export.program import describe

        describe(single(data, levels=0).with_members(3))
