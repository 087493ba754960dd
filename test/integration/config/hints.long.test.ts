import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { startFake } from '../../support/started-fake.ts';
import { runHere } from '../../support/in-process.ts';
import { start } from '../../support/program.ts';
import { temporaryFolder } from '../../support/temporary.ts';

const SERVICE = { SERVICE_BASE_URL: 'https://workbooks.example.com/api', SERVICE_API_KEY: 'key' };

describe('a command line that is not understood', () => {
  it.each([
    ['--config x sync', ["unknown option '--config'", 'the flags of one, which follow the command']],
    ['sync --service-api-key S3CRET', ['There is no flag --service-api-key:', '--service-api-key-file FILE']],
    [
      'run --service-api-token=S3CRET',
      ['--service-api-token-file FILE', 'WORKBOOK_MIRROR_SERVICE_API_TOKEN'],
    ],
    ['sync --service-api-keys=S3CRET', ["unknown option '--service-api-keys'"]],
  ])('%s', async (line, texts) => {
    const { exitCode, stdout, stderr } = await runHere(line.split(' '));
    expect(exitCode).toBe(2);
    for (const text of texts) expect(stderr).toContain(text);
    expect(stdout + stderr).not.toContain('S3CRET');
  });

  it('says where a settings file was looked for', async () => {
    const folder = await temporaryFolder();
    const missing = await start(['sync'], {}, folder).ended;
    expect(missing.stderr).toContain(
      'No settings file was read: /etc/workbook-mirror/config.yaml does not exist.',
    );
    await writeFile(join(folder, 'config.yaml'), '');
    expect((await start(['sync', '--config', 'config.yaml'], {}, folder).ended).stderr).not.toContain(
      'No settings file',
    );
  });
});

describe('config check', () => {
  it('warns of a directory in which its user cannot make a mirror, and refuses one with other data', async () => {
    const folder = await temporaryFolder();
    await writeFile(join(folder, 'file'), '');
    for (const [name, code, text] of [
      ['file', 0, /^warning +directory +.*this user cannot make a mirror below/m],
      ['file/below', 0, /^warning +directory +.*this user cannot make a mirror below/m],
      ['.', 2, /holds no mirror, but "file"/],
    ] as const) {
      const checked = await runHere(['config', 'check', '--directory', join(folder, name)], SERVICE);
      expect(checked.exitCode).toBe(code);
      expect(checked.stdout + checked.stderr).toMatch(text);
    }
  });
});

it.each([
  ['alone', 'wrong', '', null],
  [
    'beside a token, may be swapped with it',
    'wrong-1',
    'wrong-2',
    'Or service.apiKey and service.apiToken are swapped',
  ],
])('a key that the service refuses %s', async (_, apiKey, apiToken, hint) => {
  const service = await startFake();
  const { exitCode, stderr } = await runHere(['sync'], {
    SERVICE_BASE_URL: service.baseUrl,
    SERVICE_API_KEY: apiKey,
    ...(apiToken === '' ? {} : { SERVICE_API_TOKEN: apiToken }),
    DIRECTORY: await temporaryFolder(),
  });
  expect(exitCode).toBe(3);
  expect(stderr).toContain('Create a new one in the service');
  if (hint === null) expect(stderr).not.toMatch(/swapped|same value/);
  else expect(stderr).toContain(hint);
});
