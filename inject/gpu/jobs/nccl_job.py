"""Two communicators of NCCL in one process: what lies outside the allocator is theirs."""

import os, torch, torch.distributed as dist
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29555", RANK="0", WORLD_SIZE="1")
torch.cuda.set_device(0)
dist.init_process_group("nccl", device_id=torch.device("cuda", 0))
kept = [torch.ones(64 << 20, dtype=torch.uint8, device="cuda")]
group = dist.new_group([0])
for pg in (None, group):
    x = torch.ones(1 << 20, device="cuda")
    dist.all_reduce(x, group=pg)
torch.cuda.synchronize()
free, total = torch.cuda.mem_get_info()
print({"used": total - free, "reserved": torch.cuda.memory_reserved()})
