"""A GPT with batches of random size and length, 40 steps; then the cache is given back.

Segments come and go, and with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True mappings do. The last line says what was
measured (`truth.py`).
"""

import random

import torch
import torch.nn.functional as F
from torch import nn

from truth import Truth

VOCABULARY, WIDTH, HEADS, LAYERS, LONGEST = 8192, 512, 8, 4, 1024


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        weights = ((q @ k.transpose(-2, -1)) / (WIDTH // HEADS) ** 0.5).softmax(-1)
        x = x + self.proj((weights @ v).transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.down(F.gelu(self.up(self.ln2(x))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LONGEST, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, index):
        x = self.tok(index) + self.pos(torch.arange(index.shape[1], device=index.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.ln(x))
        return F.cross_entropy(logits.view(-1, VOCABULARY), index.view(-1))


def step(model, optimizer, batch, length, between):
    index = torch.randint(0, VOCABULARY, (batch, length), device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        loss = model(index)
    between()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()


def main():
    torch.manual_seed(0)
    truth = Truth("varlen")
    truth.start()
    model = GPT().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    sizes = random.Random(7)
    for _ in range(40):
        step(model, optimizer, sizes.choice([2, 4, 6, 8]), sizes.randint(64, 1000), truth.candidate)
    optimizer.zero_grad(set_to_none=True)
    torch.cuda.empty_cache()
    truth.take("end")
    truth.tell()


if __name__ == "__main__":
    main()
