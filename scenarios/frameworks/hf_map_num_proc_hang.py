# expect: hf-map-num-proc-hang (core)
"""Reviews are embedded by a small encoder, in two processes, after the encoder has been tried once in this one."""

import datasets
import torch

encoder = torch.nn.Linear(256, 256)


def embed(batch):
    with torch.no_grad():
        words = torch.tensor(batch["stars"], dtype=torch.float32)[:, None].expand(-1, 256)
        return {"vector": encoder(words.repeat(64, 1))[: len(words)].numpy()}


def main():
    reviews = datasets.Dataset.from_dict({"stars": [number % 5 for number in range(512)]})
    trial = encoder(torch.randn(2048, 256)).mean()
    print(f"the encoder works: {trial.item():.3f}", flush=True)
    embedded = reviews.map(embed, batched=True, batch_size=64, num_proc=2)
    for batch in torch.utils.data.DataLoader(embedded.with_format("torch"), batch_size=64):
        print(batch["vector"].mean().item())


if __name__ == "__main__":
    main()
