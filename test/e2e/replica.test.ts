import { join } from 'node:path';

import { expect, it } from 'vitest';

import { startEmbedded } from '../support/embedded.ts';
import { runWith } from '../support/in-process.ts';
import { start, startDaemon } from '../support/program.ts';
import { contentsOf, startReplica } from '../support/replica.ts';
import { temporaryFolder } from '../support/temporary.ts';

/** Runs a pass and gives the targets that it pulled. */
async function sync(settings: Readonly<Record<string, string>>): Promise<string[]> {
  const { exitCode, stdout, stderr } = await runWith(['sync', '--json'], settings);
  expect({ exitCode, stderr: exitCode === 0 ? '' : stderr }).toEqual({ exitCode: 0, stderr: '' });
  const { targets } = JSON.parse(stdout) as { targets: { target: string; action: string }[] };
  return targets.filter(({ action }) => action === 'pull').map(({ target }) => target);
}

it('a mirror of a replica equals the mirror of the original byte for byte across three mirrors, settles, and follows every edit', async () => {
  const embedded = await startEmbedded();
  const a = embedded.directory;
  const [b, c] = [join(await temporaryFolder(), 'b'), join(await temporaryFolder(), 'c')];
  await sync(embedded.settings);
  const first = await startReplica(a);
  expect(await sync(first.settingsFor(b))).toHaveLength(6);
  const second = await startReplica(b);
  expect(await sync(second.settingsFor(c))).toHaveLength(6);
  const original = await contentsOf(a);
  expect(Object.keys(original).length).toBeGreaterThan(40);
  expect(await contentsOf(b)).toEqual(original);
  expect(await contentsOf(c)).toEqual(original);
  expect(await sync(first.settingsFor(b))).toEqual([]);
  expect(await sync(second.settingsFor(c))).toEqual([]);
  for (let edits = 0; edits < 3; edits += 1) {
    const { repository, branch } = await embedded.edit();
    const pulled = [`${repository}/${encodeURIComponent(branch)}`];
    expect(await sync(embedded.settings)).toEqual(pulled);
    expect(await sync(first.settingsFor(b))).toEqual(pulled);
    expect(await sync(second.settingsFor(c))).toEqual(pulled);
    expect(await contentsOf(c)).toEqual(await contentsOf(a));
    expect(await contentsOf(b)).toEqual(await contentsOf(a));
  }
});

it('serve --from-mirror answers next to the daemon, reports its age, and ends with 0', async () => {
  const embedded = await startEmbedded();
  await sync(embedded.settings);
  await startDaemon(embedded.settings);
  const serve = start(['serve', '--from-mirror', '--serve-listen', '127.0.0.1:0'], embedded.settings);
  await serve.prints(/^http:/m);
  expect(serve.stderr()).toContain('read-only: 3 repositories, 6 branches.');
  expect(serve.stderr()).toMatch(/Oldest data: verified .* The daemon's last pass: .* ago\./);
  const baseUrl = serve.stdout().trim();
  const key = /apiKey: (\S+)/.exec(serve.stderr())?.[1] ?? '';
  const answer = await fetch(`${baseUrl}/repos`, { headers: { 'x-api-key': key } });
  expect(await answer.json()).toHaveLength(3);
  expect((await serve.stop()).exitCode).toBe(0);
});
