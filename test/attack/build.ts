import { spawnSync } from 'node:child_process';
import { copyFile, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { join } from 'node:path';

import type { TestProject } from 'vitest/node';

declare module 'vitest' {
  interface ProvidedContext {
    /** The compiled program's main file. */
    attackedProgram: string;
  }
}

const ROOT = join(import.meta.dirname, '../..');

/**
 * Compiles the program once for all attacks: thousands of runs start it, and it starts faster so. Below `node_modules`, so
 * that its imports resolve; in a folder of this run, so that two runs do not meet.
 */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const folder = join(ROOT, 'node_modules/.cache', `workbook-mirror-attack-${process.pid}`);
  await mkdir(folder, { recursive: true });
  await copyFile(join(ROOT, 'package.json'), join(folder, 'package.json'));
  const compiler = join(ROOT, 'node_modules/.bin/tsc');
  const main = join(folder, 'dist/main.js');
  const { stdout } = spawnSync(
    compiler,
    ['-p', join(ROOT, 'src/tsconfig.json'), '--outDir', join(folder, 'dist')],
    {
      encoding: 'utf8',
    },
  );
  if (!existsSync(main)) throw new Error(`the program does not compile:\n${stdout}`);
  await writeFile(main, (await readFile(main, 'utf8')).replace(/^#!.*\n/, ''));
  project.provide('attackedProgram', main);
  return () => rm(folder, { recursive: true, force: true });
}
