import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, globSync } from 'node:fs';
import { copyFile, mkdir, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '../..');

/** Where programs are compiled to: below `node_modules`, so that their imports resolve. */
const COMPILED = join(ROOT, 'node_modules/.cache');

/** Compiles the program into a folder: thousands of runs start it, and it starts faster so. @returns its main file */
async function compileProgram(folder: string): Promise<string> {
  await mkdir(folder, { recursive: true });
  await copyFile(join(ROOT, 'package.json'), join(folder, 'package.json'));
  const main = join(folder, 'dist/main.js');
  const { stderr } = spawnSync(process.execPath, [join(ROOT, '.ci/build.ts'), join(folder, 'dist')], {
    encoding: 'utf8',
  });
  if (!existsSync(main)) throw new Error(`the program cannot be built:\n${stderr}`);
  return main;
}

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
    await compileProgram(made);
    await rename(made, folder).catch(() => rm(made, { recursive: true, force: true }));
  }
  return { main: join(folder, 'dist/main.js'), digest };
}

/** What the program is built of, and what finds points, tries them and judges what became of them. */
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
