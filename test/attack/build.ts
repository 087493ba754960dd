import { createHash } from 'node:crypto';
import { existsSync, globSync } from 'node:fs';
import { copyFile, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';

import { build } from '../support/built.ts';

const ROOT = join(import.meta.dirname, '../..');

/** Where programs are compiled to: below `node_modules`, so that their imports resolve. */
const COMPILED = join(ROOT, 'node_modules/.cache');

/** A compiled program, and what tells it from others. */
export interface Build {
  readonly main: string;
  /** A digest of its sources and of those of the attacks, its packages and the version of Node. */
  readonly digest: string;
}

/** Compiles the program unless that was done for the same sources; several processes may do so at once. */
export async function compileOnce(): Promise<Build> {
  const digest = await digestOfSources();
  const folder = join(COMPILED, `workbook-mirror-attack-${digest}`);
  if (!existsSync(folder)) {
    const made = `${folder}-${process.pid}`;
    // Thousands of runs start it, and it starts faster so.
    build(join(made, 'dist'));
    await copyFile(join(ROOT, 'package.json'), join(made, 'package.json'));
    await rename(made, folder).catch(() => rm(made, { recursive: true, force: true }));
  }
  return { main: join(folder, 'dist/main.js'), digest };
}

/** The sources of the program, and of the code that finds points, tries them and judges the results. */
const SOURCES = [
  'src/**/*.{ts,js}',
  'package-lock.json',
  '.ci/build.ts',
  'test/attack/*.ts',
  'test/support/{fake-service,gate,gated,launcher,strace,sweep,wake-ups}.{ts,c}',
];

/** A digest of the sources and of the version of Node, in a few characters. */
async function digestOfSources(): Promise<string> {
  const digest = createHash('sha256').update(process.version);
  for (const file of globSync(SOURCES, { cwd: ROOT }).sort()) {
    digest.update(`${file}\0`).update(await readFile(join(ROOT, file)));
  }
  return digest.digest('hex').slice(0, 10);
}
