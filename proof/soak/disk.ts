import { execFileSync } from 'node:child_process';
import { closeSync, mkdirSync, openSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import type { OnEnd } from '../processes/cleanup.ts';
import { MIB } from '../tables/figures.ts';

const SIZE_MIB = 256;

/** A disk that can be filled. */
export interface Disk {
  readonly path: string;
  /** Whether it is a disk of its own; otherwise it cannot be filled. */
  readonly isOwn: boolean;
  fill(): void;
  free(): void;
}

/** Mounts a small disk in memory; without the permission to mount, a folder that is never full. */
export function openDisk(path: string, onEnd: OnEnd): Disk {
  mkdirSync(path);
  const isOwn = mount(path);
  if (isOwn) onEnd(() => execFileSync('umount', ['-l', path]));
  const filler = join(path, 'filler');
  return {
    path,
    isOwn,
    fill: () => isOwn && fillUp(filler),
    free: () => rmSync(filler, { force: true }),
  };
}

function mount(path: string): boolean {
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${SIZE_MIB}m`, 'weir-soak', path], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

/** Writes until no octet is left. */
function fillUp(path: string): void {
  const file = openSync(path, 'w');
  try {
    for (let size = MIB; size >= 1; ) {
      try {
        writeSync(file, Buffer.alloc(size));
      } catch {
        size = Math.floor(size / 2);
      }
    }
  } finally {
    closeSync(file);
  }
}
