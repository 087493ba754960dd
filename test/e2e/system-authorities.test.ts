import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:https';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { listen, makeCertificate } from '../support/listen.ts';
import { run } from '../support/program.ts';
import { temporaryFolder } from '../support/temporary.ts';

describe('the authorities that this machine trusts', () => {
  it.each([
    ['count', 'localhost', 0],
    ['are the only ones beside those of Node', 'other', 3],
  ])('%s', async (_title, trusted, exitCode) => {
    const [certificate, other] = [await makeCertificate('localhost'), await makeCertificate('other')];
    if (certificate === null || other === null) throw new Error('openssl is missing');
    const folder = await temporaryFolder();
    const authorities = join(folder, 'authorities.pem');
    await writeFile(authorities, (trusted === 'localhost' ? certificate : other).cert);
    const server = createServer(certificate, (_request, response) => {
      response.setHeader('content-type', 'application/json').end('[]');
    });
    const listed = await run(['repos', 'list'], {
      NODE_EXTRA_CA_CERTS: '',
      SSL_CERT_FILE: authorities,
      SSL_CERT_DIR: folder,
      WORKBOOK_MIRROR_SERVICE_BASE_URL: `https://${(await listen(server)).replace('127.0.0.1', 'localhost')}/api`,
      WORKBOOK_MIRROR_SERVICE_API_KEY: 'key',
      WORKBOOK_MIRROR_DIRECTORY: join(folder, 'mirror'),
    });
    expect(listed, listed.stderr).toMatchObject({ exitCode });
  });
});
