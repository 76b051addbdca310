import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { addProject } from '../../deploy/image/rootfs.ts';
import { imageBase } from './tools.ts';

/** The root file system of the image, with the current build of the project. */
export interface ImageRoot {
  readonly root: string;
  remove(): void;
}

export async function makeImageRoot(): Promise<ImageRoot> {
  const base = await imageBase();
  const folder = mkdtempSync(join(dirname(base), 'image-root-')); // on the same file system, for hard links
  const root = join(folder, 'root');
  await promisify(execFile)('cp', ['-al', base, root]); // nothing writes to these files
  addProject(root);
  return { root, remove: () => rmSync(folder, { recursive: true }) };
}
