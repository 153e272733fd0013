"""Scripts of ours that run inside of the sandbox, in the interpreter of the experiments. Never imported."""
