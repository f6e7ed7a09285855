"""Heads behind reference.py's models, by numpy in float64: pooling, Dense modules, scores of relevance. For
tests/http/test_heads.py, which runs them against the binary."""
import json

import numpy as np
import reference


def write_model(folder, m, rng, more=None, architecture=None):
    """config.json and model.safetensors of a random model; `more` are tensors of a head. Returns the weights as the
    file holds them."""
    folder.mkdir(parents=True, exist_ok=True)
    reference.write_config(folder, m)
    if architecture:
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | {"architectures": [architecture]}))
    more = more or {}
    prefixed = {name: values for name, values in more.items()}
    weights = reference.make_weights(m, rng)
    return reference.write_weights(folder, m | {"prefix": ""}, weights | prefixed)


def write_dense(folder, weight, bias, activation):
    """A Dense module's folder; bias may be None."""
    folder.mkdir()
    config = {"in_features": weight.shape[1], "out_features": weight.shape[0], "bias": bias is not None,
              "activation_function": f"torch.nn.modules.{activation}"}
    (folder / "config.json").write_text(json.dumps(config))
    tensors = {"linear.weight": weight} | ({} if bias is None else {"linear.bias": bias})
    reference.write_safetensors(folder / "model.safetensors", {
        name: ("F32", list(values.shape), values.astype("<f4").tobytes()) for name, values in tensors.items()})


def pooled(states, mode):
    return {"mean": lambda: states.mean(axis=0), "first": lambda: states[0], "last": lambda: states[-1]}[mode]()


def dense(x, weight, bias, activation):
    y = weight @ x + (0 if bias is None else bias)
    return np.tanh(y) if activation.endswith("Tanh") else y


def normalised(x):
    return x / np.linalg.norm(x)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))
