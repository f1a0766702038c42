# expect: healthy
"""A language model in the manner of transformers' own examples: trained, evaluated, saved, interrupted and resumed."""

import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

BLOCK = 16


class Texts(torch.utils.data.Dataset):
    """Blocks of tokens."""

    def __init__(self, count, seed):
        self.tokens = torch.randint(0, 64, (count, BLOCK), generator=torch.Generator().manual_seed(seed))

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        return {"input_ids": self.tokens[index], "labels": self.tokens[index]}


def trainer(folder, **settings):
    model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=BLOCK, n_embd=16, n_layer=1, n_head=2))
    arguments = TrainingArguments(
        output_dir=folder, per_device_train_batch_size=8, gradient_accumulation_steps=2, num_train_epochs=3,
        eval_strategy="epoch", save_strategy="steps", save_steps=15, logging_steps=10, report_to=[], use_cpu=True,
        disable_tqdm=True, load_best_model_at_end=False, **settings,
    )  # fmt: skip
    return Trainer(model, arguments, train_dataset=Texts(160, 1), eval_dataset=Texts(48, 2))


def main():
    with tempfile.TemporaryDirectory() as folder:
        trainer(folder, max_steps=15).train()
        again = trainer(folder)
        again.train(resume_from_checkpoint=True)
        print(again.evaluate()["eval_loss"])


if __name__ == "__main__":
    main()
