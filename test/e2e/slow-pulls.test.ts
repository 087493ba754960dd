import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it, onTestFinished } from 'vitest';

import { API_KEY, API_TOKEN, FakeService } from '../support/fake-service.ts';
import { run, start } from '../support/program.ts';
import { temporaryFolder } from '../support/temporary.ts';

/** A service on which the contents of one repository wait until they are let go. */
async function startService(): Promise<{
  service: FakeService;
  settings: Record<string, string>;
  hold: () => () => void;
}> {
  const service = await FakeService.start();
  onTestFinished(() => service.close());
  const slow = service.addRepository('Slow', { 'huge.xlsx': 'one' });
  service.addRepository('Prompt', { 'small.xlsx': 'one' });
  const hold = (): (() => void) => {
    const { promise: released, resolve } = Promise.withResolvers<void>();
    service.fault = (path) =>
      path.includes(`/${slow.id}/contents?`) ? { kind: 'wait', after: 20, released } : null;
    return resolve;
  };
  const settings = {
    WORKBOOK_MIRROR_SERVICE_BASE_URL: service.baseUrl,
    WORKBOOK_MIRROR_SERVICE_API_KEY: API_KEY,
    WORKBOOK_MIRROR_SERVICE_API_TOKEN: API_TOKEN,
    WORKBOOK_MIRROR_DIRECTORY: join(await temporaryFolder(), 'mirror'),
    WORKBOOK_MIRROR_CONCURRENCY: '1',
  };
  return { service, settings, hold };
}

/** The settings file of a daemon that makes no pass by its schedule. @param timeout longer than the pull takes to count as slow */
function fileWith(timeout: string): string {
  return `schedule: "0 0 1 1 *"\nservice:\n  timeout: ${timeout}\n`;
}

describe('a pull that takes long', () => {
  it('goes on beside the passes of the daemon, also when its settings change; page and metrics say since when; sync waits for it', async () => {
    const { settings, hold } = await startService();
    const release = hold();
    const file = join(await temporaryFolder(), 'config.yaml');
    await writeFile(file, fileWith('5m'));
    const alone = {
      ...settings,
      WORKBOOK_MIRROR_SERVICE_TIMEOUT: '5m',
      WORKBOOK_MIRROR_DIRECTORY: join(await temporaryFolder(), 'mirror'),
    };
    const sync = start(['sync'], alone);
    const daemon = start(['run', '--config', file, '--http-listen', '127.0.0.1:0'], settings);
    await daemon.prints(/"pass\.finished"[^\n]*"pulled":1[^\n]*"pulling":1/);
    const [, address = ''] = /"address":"([^"]+)"/.exec(daemon.stdout()) ?? [];
    const ask = async (path: string): Promise<string> => (await fetch(new URL(path, address))).text();
    expect(JSON.parse(await ask('/api/status'))).toMatchObject({
      live: { pass: null, slow: [{ target: 'Slow/main' }] },
      pulls: [{ target: 'Slow/main', phase: 'downloading', doneBytes: 20, downloadedBytes: 20 }],
    });
    expect(await ask('/metrics')).toContain('workbook_mirror_slow_pulls 1\n');
    await sync.prints(/Slow\/main: takes long/);
    await sync.prints(/Prompt\/main: published/);
    // Other settings bring another client; that of the pull is not closed under it.
    await writeFile(`${file}.new`, fileWith('3m'));
    await rename(`${file}.new`, file);
    await daemon.prints(/"trigger":"settings"[^\n]*"pulling":1/);
    release();
    expect((await sync.ended).exitCode).toBe(0);
    await daemon.prints(/"target\.pulled"[^\n]*Slow\/main/);
    daemon.child.kill('SIGHUP');
    await daemon.prints(/"trigger":"signal"[^\n]*"pulling":0/);
    expect(daemon.stdout()).not.toMatch(/target\.failed|pass\.failed|service\.retry/);
    expect((await run(['status'], settings)).exitCode).toBe(0);
  });
});
