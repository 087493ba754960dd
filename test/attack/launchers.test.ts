import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { freshNode, type Launcher, type NodeProgram } from '../support/launcher.ts';
import { forkedNode, lastingNode } from '../support/node-server.ts';
import { canStrike, runInjected, traceCalls } from '../support/strace.ts';

const PROGRAM = `
import { mkdirSync, promises, writeSync } from 'node:fs';
import { isMainThread, Worker } from 'node:worker_threads';
const folder = process.env.FOLDER;
if (isMainThread) {
  const tried = await promises.mkdir(folder + '/of-pool').then(() => 'made', (error) => error.code);
  const worker = new Worker(new URL(import.meta.url), { execArgv: [] });
  const made = await new Promise((resolve) => worker.once('message', resolve));
  process.stderr.write(tried + ' ' + made + ' in ' + process.argv.at(-1));
  process.exitCode = 3;
} else {
  const { parentPort } = await import('node:worker_threads');
  let made = 'made';
  try { mkdirSync(folder + '/of-thread'); } catch (error) { made = error.code; }
  parentPort.postMessage(made);
}
`;

const noWarmUp = (): Promise<void> => Promise.resolve();

const LAUNCHERS: Readonly<Record<string, (folder: string) => Promise<Launcher>>> = {
  fresh: () => Promise.resolve(freshNode),
  forked: (folder) => forkedNode(folder, noWarmUp),
  lasting: (folder) => lastingNode(folder, noWarmUp),
};

it('draws other random names in each fork of a process that has drawn some', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'workbook-mirror-launcher-'));
  const main = join(folder, 'main.mjs');
  writeFileSync(main, "import { randomUUID } from 'node:crypto'; process.stderr.write(randomUUID());");
  const program = { args: [main], env: {}, timeoutMs: 30_000 };
  const launcher = await forkedNode(folder, async (run) => {
    await run(program);
  });
  try {
    const names = [await launcher.run(program), await launcher.run(program)].map(({ stderr }) => stderr);
    expect(names[0]).toMatch(/^[0-9a-f-]{36}$/);
    expect(names[0]).not.toBe(names[1]);
  } finally {
    await launcher.close();
    rmSync(folder, { recursive: true });
  }
});

it('tells what a run has left open or going in a process that lasts, and takes off what it listens to', async () => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'workbook-mirror-launcher-')));
  const main = join(folder, 'main.mjs');
  writeFileSync(
    main,
    `import { openSync } from 'node:fs';
     if (process.listenerCount('uncaughtException') > 0) process.exitCode = 1;
     process.on('uncaughtException', () => {});
     if (process.env.OPEN) openSync(process.env.OPEN, 'w');
     if (process.env.WAIT) setInterval(() => {}, 1000);`,
  );
  const programWith = (env: NodeJS.ProcessEnv): NodeProgram => ({ args: [main], env, timeoutMs: 30_000 });
  const launcher = await lastingNode(folder, noWarmUp);
  try {
    const left = join(folder, 'left');
    expect(await launcher.run(programWith({ OPEN: left }))).toMatchObject({ exitCode: 0, openFiles: [left] });
    expect(await launcher.run(programWith({}))).toMatchObject({ exitCode: 0, openFiles: [] });
    expect(await launcher.run(programWith({ WAIT: '1' }))).toMatchObject({ openFiles: ['Timeout'] });
  } finally {
    await launcher.close();
    rmSync(folder, { recursive: true });
  }
});

it('gives a thread that a program has ended to the next run, in a process that lasts', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'workbook-mirror-launcher-'));
  const main = join(folder, 'main.mjs');
  writeFileSync(
    main,
    `import { isMainThread, parentPort, threadId, Worker } from 'node:worker_threads';
     if (isMainThread) {
       const worker = new Worker(new URL(process.env.THREAD), { execArgv: [] });
       const asked = new Promise((resolve) => worker.once('message', resolve));
       worker.postMessage('who');
       process.stderr.write(String(await asked));
       worker.unref();
       await worker.terminate();
     } else parentPort.on('message', () => parentPort.postMessage(threadId));`,
  );
  const program = { args: [main], env: { THREAD: pathToFileURL(main).href }, timeoutMs: 10_000 };
  const launcher = await lastingNode(folder, noWarmUp);
  try {
    const threads = [await launcher.run(program), await launcher.run(program), await launcher.run(program)];
    expect(threads.map(({ stderr }) => stderr)).toEqual(['1', '1', '1']);
  } finally {
    await launcher.close();
    rmSync(folder, { recursive: true });
  }
});

describe.skipIf(!canStrike).each(Object.entries(LAUNCHERS))('a program that is started %s', (_name, make) => {
  let folder = '';
  let launcher: Launcher = freshNode;
  const programIn = (name: string): NodeProgram => {
    mkdirSync(join(folder, name));
    const env = { PATH: process.env['PATH'], FOLDER: join(folder, name) };
    return { args: [join(folder, 'main.mjs'), name], env, timeoutMs: 30_000 };
  };
  const trace = (): string => join(folder, 'trace');

  beforeAll(async () => {
    folder = realpathSync(mkdtempSync(join(tmpdir(), 'workbook-mirror-launcher-')));
    writeFileSync(join(folder, 'main.mjs'), PROGRAM);
    launcher = await make(folder);
  });

  afterAll(async () => {
    await launcher.close();
    rmSync(folder, { recursive: true });
  });

  it('ends as it says, with its own environment and arguments', async () => {
    for (const name of ['one', 'other']) {
      const ended = await launcher.run(programIn(name));
      expect(ended).toEqual({
        exitCode: 3,
        signal: null,
        stderr: `made made in ${name}`,
        isHung: false,
        openFiles: [],
      });
    }
  });

  it('shows the calls of its threads by their names, and the same ones again', async () => {
    const traced = async (name: string): Promise<string[]> => {
      const program = programIn(name);
      const { traced } = await traceCalls(launcher, program, ['mkdir'], join(folder, name), trace());
      return traced.map(({ thread, call, ordinal }) => `${thread}/${call}/${ordinal}`);
    };
    expect(await traced('traced')).toEqual(['pool/mkdir/1', 'thread-1/mkdir/1']);
    expect(await traced('again')).toEqual(await traced('once-more'));
  });

  it('counts no call by which threads wake each other', async () => {
    const main = join(folder, 'writes.mjs');
    writeFileSync(
      main,
      `import { open } from 'node:fs/promises';
       const file = await open(process.env.FOLDER + '/file', 'w');
       for (let part = 0; part < 10; part += 1) await file.write('12345678');
       await file.close();`,
    );
    const { env, timeoutMs } = programIn('writes');
    const { traced } = await traceCalls(
      launcher,
      { args: [main], env, timeoutMs },
      ['write'],
      folder,
      trace(),
    );
    const writes = traced.filter(({ thread }) => thread === 'pool').map(({ ordinal }) => ordinal);
    expect(writes).toEqual(Array.from({ length: 10 }, (_, index) => index + 1));
  });

  it('is struck at the one call that is meant, in whichever thread', async () => {
    const strike = { call: 'mkdir', ordinal: 1, fault: 'EROFS' };
    const pool = await runInjected(
      launcher,
      programIn('pool'),
      { ...strike, thread: 'pool' },
      folder,
      trace(),
    );
    expect(pool).toMatchObject({ isReached: true, ended: { stderr: 'EROFS made in pool' } });
    const thread = await runInjected(
      launcher,
      programIn('thread'),
      { ...strike, thread: 'thread-1' },
      folder,
      trace(),
    );
    expect(thread).toMatchObject({ isReached: true, ended: { stderr: 'made EROFS in thread' } });
    const never = await runInjected(
      launcher,
      programIn('never'),
      { ...strike, thread: 'thread-9' },
      folder,
      trace(),
    );
    expect(never).toMatchObject({ isReached: false, isStray: false, ended: { exitCode: 3 } });
    const elsewhere = join(folder, 'elsewhere');
    const other = await runInjected(
      launcher,
      programIn('other-path'),
      { ...strike, thread: 'pool' },
      elsewhere,
      trace(),
    );
    expect(other).toMatchObject({ isReached: false, isStray: true });
  });

  it('is killed by a strike, and counts as hung when it takes too long', async () => {
    const kill = { thread: 'thread-1', call: 'mkdir', ordinal: 1, fault: 'KILL' };
    const killed = await runInjected(launcher, programIn('killed'), kill, folder, trace());
    expect(killed).toMatchObject({ isReached: true, ended: { signal: 'SIGKILL', isHung: false } });
    const hung = await launcher.run({ ...programIn('hung'), timeoutMs: 1 });
    expect(hung).toMatchObject({ signal: 'SIGKILL', isHung: true });
  });
});
