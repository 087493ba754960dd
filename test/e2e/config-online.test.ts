import { mkdir } from 'node:fs/promises';

import { expect, it } from 'vitest';

import { startEmbedded } from '../support/embedded.ts';
import { runWith } from '../support/in-process.ts';
import { startReceiver } from '../support/listen.ts';

it('config check --online makes all checks, names keys by position, and sends no notification', async () => {
  const embedded = await startEmbedded();
  await mkdir(embedded.directory);
  const { origin, received } = await startReceiver();
  const good = embedded.settings.WORKBOOK_MIRROR_SERVICE_API_KEY;
  const settings = {
    ...embedded.settings,
    WORKBOOK_MIRROR_SERVICE_API_KEY: `a-wrong-key-of-mine\n${good}`,
    WORKBOOK_MIRROR_HOOKS_WEBHOOK: `${origin}/secret-hook`,
  };
  const well = await runWith(['config', 'check', '--online', '--json'], settings);
  expect(well.exitCode).toBe(0);
  const verdicts = (text: string) => {
    const rows = JSON.parse(text) as { subject: string; verdict: string }[];
    return Object.fromEntries(rows.map(({ subject, verdict }) => [subject, verdict]));
  };
  expect(verdicts(well.stdout)).toMatchObject({
    'service.baseUrl': 'ok',
    'service.apiKey, key 1 of 2': 'warning',
    'service.apiKey, key 2 of 2': 'ok',
    clock: 'ok',
    user: 'ok',
    'hooks.webhook': 'ok',
    schedule: 'ok',
  });
  for (const secret of ['a-wrong-key-of-mine', good, 'secret-hook'])
    expect(well.stdout).not.toContain(secret);
  expect(received).toEqual([]);

  const elsewhere = `${embedded.service.baseUrl}/none`;
  const wrong = await runWith(['config', 'check', '--online', '--json'], {
    ...settings,
    WORKBOOK_MIRROR_SERVICE_BASE_URL: elsewhere,
  });
  expect(wrong.exitCode).toBe(1);
  expect(verdicts(wrong.stdout)).toMatchObject({ 'service.baseUrl': 'error' });

  await embedded.service.close();
  const lost = await runWith(['config', 'check', '--online', '--json'], {
    ...settings,
    WORKBOOK_MIRROR_HOOKS_AFTER_PUBLISH: '/missing/program',
  });
  expect(lost.exitCode).toBe(1);
  expect(verdicts(lost.stdout)).toMatchObject({
    'service.baseUrl': 'error',
    'hooks.afterPublish': 'error',
    'hooks.webhook': 'ok',
  });
});
