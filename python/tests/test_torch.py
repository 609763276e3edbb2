"""PyTorch beside Pagewise: its tensors have NumPy's memory, its workers are forked, and its own memory is its own.

Skipped where torch is not installed: `build/python/3.11/bin/pip install torch` adds it (3 GB).
"""

import importlib.util

import pytest
from conftest import WAYS, run_python

if not importlib.util.find_spec("torch"):
    pytest.skip("torch is not installed", allow_module_level=True)

EVERYTHING = "policy=share,threshold=8K"
# No accelerator is found, which torch warns of; and it warns of forks beside its threads.
CALM = {"warnings": "ignore"}


def test_a_tensor_of_numpys_memory_and_its_copies_keep_their_values(same_output):
    same_output(
        """
        import numpy as np, torch
        torch.set_num_threads(1)
        source = np.arange(1_000_000, dtype=np.float64)
        kept = []
        for step in range(12):
            array = source.copy()
            tensor = torch.from_numpy(array)
            tensor[step::1000] += 1
            array[step + 1] = -1
            kept.append((array, tensor, tensor.clone(), torch.from_numpy(source.copy()).mul_(2).numpy()))
        assert all(array[step + 1] == tensor[step + 1] == -1 for step, (array, tensor, *_) in enumerate(kept))
        print(source.sum(), [(a.sum(), float(t.sum()), float(c.sum()), d.sum()) for a, t, c, d in kept])
        """,
        EVERYTHING,
        **CALM,
    )


def test_workers_of_a_loader_read_what_plain_ones_read(same_output):
    same_output(
        """
        import numpy as np, torch
        from torch.utils.data import DataLoader, Dataset
        torch.set_num_threads(1)
        class Rows(Dataset):
            def __init__(self):
                self.rows = np.arange(400_000, dtype=np.float32).reshape(400, 1000).copy()
            def __len__(self):
                return len(self.rows)
            def __getitem__(self, number):
                row = self.rows[number].copy()
                row[0] = -1
                return row
        rows = Rows()
        for pinned in (False, True):
            loader = DataLoader(rows, batch_size=50, num_workers=2, pin_memory=pinned, multiprocessing_context="fork")
            print([(tuple(batch.shape), float(batch.double().sum())) for batch in loader])
        print(rows.rows.sum(dtype=np.float64))
        """,
        EVERYTHING,
        **CALM,
    )


@pytest.mark.parametrize("way", WAYS)
def test_torchs_own_memory_is_never_shared(way):
    told = run_python(
        """
        import numpy as np, pagewise, torch
        torch.set_num_threads(1)
        def shared():
            return pagewise.report().statistics["copies_shared"]
        before = shared()
        tensors = [torch.ones(1_000_000)]
        tensors += [tensors[0].clone() for _ in range(10)]
        of_torch = shared() - before
        arrays = [np.ones(1_000_000)]
        arrays += [arrays[0].copy() for _ in range(10)]
        print(of_torch, shared() - before - of_torch)
        """,
        way=way,
        options=EVERYTHING,
        **CALM,
    ).stdout.split()
    assert told == ["0", "10"]
