"""A small vision net, three steps of training; its last line says what was measured (`truth.py`)."""

import torch
import torch.nn.functional as F
from torch import nn

from truth import Truth


class SmallVisionNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 3, padding=1)
        self.conv2 = nn.Conv2d(64, 128, 3, padding=1)
        self.fc = nn.Linear(128 * 8 * 8, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc(torch.flatten(x, 1))


def train_one_step(model, optimizer, x, y, between=lambda: None):
    """`between` is called when all activations are there: after forward, before backward."""
    x, y = x.cuda(), y.cuda()
    loss = F.cross_entropy(model(x), y)
    between()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def setup():
    torch.manual_seed(0)
    model = SmallVisionNet().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    return model, optimizer, torch.randn(128, 3, 32, 32), torch.randint(0, 10, (128,))


def main():
    truth = Truth("cnn")
    truth.start()
    work = setup()
    for _ in range(3):
        train_one_step(*work, truth.candidate)
    truth.take("end")
    truth.tell()


if __name__ == "__main__":
    main()
