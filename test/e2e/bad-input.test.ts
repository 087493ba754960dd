import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { startEmbedded } from '../support/embedded.ts';
import { startReceiver } from '../support/listen.ts';
import { run } from '../support/program.ts';
import { temporaryFolder } from '../support/temporary.ts';

async function settingsFor(baseUrl: string): Promise<Record<string, string>> {
  return {
    WORKBOOK_MIRROR_SERVICE_BASE_URL: baseUrl,
    WORKBOOK_MIRROR_SERVICE_API_KEY: 'a-secret-key-that-nobody-may-see',
    WORKBOOK_MIRROR_DIRECTORY: join(await temporaryFolder(), 'mirrored'),
  };
}

/** A message for a person: no stack trace, no secret. */
function expectReadable(text: string): void {
  expect(text).not.toMatch(/^\s+at /m);
  expect(text).not.toContain('a-secret-key');
}

describe('bad input', () => {
  it('notices a base address without /api', async () => {
    const { settings } = await startEmbedded();
    const baseUrl = settings['WORKBOOK_MIRROR_SERVICE_BASE_URL']?.replace(/\/api$/, '') ?? '';
    const { exitCode, stderr } = await run(['sync'], {
      ...settings,
      WORKBOOK_MIRROR_SERVICE_BASE_URL: baseUrl,
    });
    expect(exitCode).toBe(3);
    expect(stderr).toMatch(/service\.baseUrl.*\/api, and this one has no \/api/);
  });

  it.each([
    ['an HTML page', 'text/html', '<!doctype html><title>Log in</title>'],
    ['another kind of JSON', 'application/json', '{"message":"hello"}'],
    ['nothing', 'application/json', ''],
  ])('recognises %s where the API should be', async (_name, type, body) => {
    const { origin } = await startReceiver((_count, response) => {
      response.writeHead(200, { 'content-type': type }).end(body);
      return null;
    });
    const { exitCode, stderr } = await run(['sync'], await settingsFor(`${origin}/api`));
    expect(exitCode).toBe(3);
    expect(stderr).toContain('service.baseUrl');
    expectReadable(stderr);
  });
});
