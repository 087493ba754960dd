import { cp, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:https';
import { dirname, join } from 'node:path';

import { describe, expect, it, onTestFinished } from 'vitest';

import { startEmbedded } from '../support/embedded.ts';
import { saying } from '../support/in-process.ts';
import { listen, makeCertificate } from '../support/listen.ts';
import { MAIN } from '../support/built.ts';
import { run, start, startDaemon } from '../support/program.ts';
import { temporaryFolder } from '../support/temporary.ts';

const NEVER = { WORKBOOK_MIRROR_SCHEDULE: '0 0 1 1 *' };

/** Two certificates, one for the service, and the place of a file for the trusted one. */
async function certificates() {
  const [certificate, other] = [await makeCertificate('localhost'), await makeCertificate('other')];
  const folder = await temporaryFolder();
  return { certificate, other, folder, authorities: join(folder, 'authorities.pem') };
}

describe('a daemon ends with the exit code for a restart', () => {
  it('if another mirror replaced its directory, but not while it is missing', async () => {
    const embedded = await startEmbedded();
    const daemon = await startDaemon(embedded.settings);
    const aside = `${embedded.directory}-aside`;
    await rename(embedded.directory, aside);
    onTestFinished(() => rm(aside, { recursive: true, force: true }));
    daemon.child.kill('SIGHUP');
    await daemon.prints(/"directory\.replaced"/);
    expect(daemon.child.exitCode).toBeNull();
    const filter = (path: string): boolean => !path.endsWith('control.sock');
    await cp(aside, embedded.directory, { recursive: true, preserveTimestamps: true, filter });
    daemon.child.kill('SIGHUP');
    expect(await daemon.ended).toMatchObject({ exitCode: 1 });
    const again = start(['run'], { ...embedded.settings, ...NEVER });
    await again.prints(/"pass\.finished"[^\n]*"pulled":0/);
  });

  it('if the file with extra certificate authorities changed, and its old authority is refused', async () => {
    const { certificate, other, folder, authorities } = await certificates();
    await writeFile(authorities, other.cert);
    const daemon = start(['run'], {
      ...NEVER,
      NODE_EXTRA_CA_CERTS: authorities,
      WORKBOOK_MIRROR_SERVICE_BASE_URL: `https://${await listen(createServer(certificate))}/api`,
      WORKBOOK_MIRROR_SERVICE_API_KEY: 'key',
      WORKBOOK_MIRROR_DIRECTORY: join(folder, 'mirror'),
    });
    await daemon.prints(/"pass\.failed"/);
    expect(daemon.child.exitCode).toBeNull();
    await writeFile(authorities, certificate.cert);
    daemon.child.kill('SIGHUP');
    expect(await daemon.ended).toMatchObject({ exitCode: 3 });
  });

  it('if the files of the program are missing', async () => {
    const embedded = await startEmbedded();
    const folder = await temporaryFolder();
    const built = dirname(MAIN);
    await cp(built, join(folder, 'dist'), { recursive: true });
    await cp(join(built, '../package.json'), join(folder, 'package.json'));
    await symlink(join(built, '../node_modules'), join(folder, 'node_modules'));
    await rm(join(folder, 'dist/thread.js'));
    const settings = { ...embedded.settings, ...NEVER };
    const daemon = start(['run'], settings, folder, join(folder, 'dist/main.js'));
    expect(await daemon.ended).toMatchObject({ exitCode: 1, stdout: saying('"program.replaced"') });
  });
});

it.each([
  ['count', 'localhost', 0],
  ['are the only ones beside those of Node', 'other', 3],
])('the authorities that this machine trusts %s', async (_title, trusted, exitCode) => {
  const { certificate, other, folder, authorities } = await certificates();
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
