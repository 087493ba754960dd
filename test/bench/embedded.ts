import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

import type { Bench } from './bench.ts';
import type { GitHost } from './git.ts';
import { ContenderError } from './measure.ts';
import { type Address, API_KEY, API_TOKEN } from './program.ts';

const LOOK_EVERY_MS = 200;
const PATIENCE_MS = 120_000;

/**
 * Starts the embedded service on bare Git repositories, until the benchmark ends.
 * @param workbooks how many it must list before it counts as ready
 * @throws ContenderError when it does not get there
 */
export async function startEmbedded(
  bench: Bench,
  { folder, names }: GitHost,
  workbooks: number,
): Promise<Address> {
  const child = spawn(process.execPath, [bench.program, 'serve'], {
    env: {
      ...process.env,
      WORKBOOK_MIRROR_SERVE_DIRECTORY: await bench.place('service'),
      WORKBOOK_MIRROR_SERVE_LISTEN: '127.0.0.1:0',
      WORKBOOK_MIRROR_SERVE_SOURCES: 'any',
      WORKBOOK_MIRROR_SERVE_API_KEY: API_KEY,
      WORKBOOK_MIRROR_SERVE_API_TOKEN: API_TOKEN,
    },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const ended = once(child, 'exit');
  bench.atEnd(async () => {
    child.kill('SIGTERM');
    await ended;
  });
  const [baseUrl] = (await once(createInterface({ input: child.stdout }), 'line')) as [string];
  for (const name of names) {
    const answer = await fetch(`${baseUrl}/repos`, {
      method: 'POST',
      headers: { 'x-api-key': API_KEY, 'content-type': 'application/json' },
      body: JSON.stringify({ url: `file://${join(folder, `${name}.git`)}` }),
    });
    if (!answer.ok)
      throw new ContenderError(`the embedded service takes no repository: ${await answer.text()}`);
  }
  const endAtMs = performance.now() + PATIENCE_MS;
  for (let count = 0; count !== workbooks;) {
    if (performance.now() > endAtMs)
      throw new ContenderError(`the embedded service lists ${count} workbooks`);
    await sleep(LOOK_EVERY_MS);
    const answer = await fetch(`${baseUrl}/v1/workbooks`, { headers: { authorization: API_TOKEN } });
    ({ count } = (await answer.json()) as { count: number });
  }
  return { baseUrl };
}
