import { expect, it } from 'vitest';

import { GROUP_KEY, KEY, startUploadService, type UploadService } from '../../../support/upload-service.ts';

const FORM = 'application/x-www-form-urlencoded';

/** Every request whose body is read as JSON. */
const REQUESTS = [
  ['a repository is created', 'api/repos', KEY, { name: 'Größe' }, 201],
  ['a webhook', 'api/webhooks/push', GROUP_KEY, { repository: 'Größe' }, 404],
] as const;

async function prepare(service: UploadService) {
  await service.registry.create('R');
  return (path: string, key: string, bytes: Uint8Array, type = 'application/json'): Promise<Response> =>
    fetch(service.origin + path, {
      method: 'POST',
      headers: { 'x-api-key': key, 'content-type': type },
      body: Buffer.from(bytes),
    });
}

it.each(REQUESTS)(
  'must be UTF-8, with or without a byte order mark: %s',
  async (_, path, key, body, status) => {
    const service = await startUploadService();
    const post = await prepare(service);
    const json = JSON.stringify(body);
    for (const bytes of [Buffer.from(json, 'latin1'), Buffer.from(`\uFEFF${json}`, 'utf16le')]) {
      const answer = await post(path, key, bytes);
      expect([answer.status, await answer.text()]).toEqual([400, expect.stringContaining('UTF-8')]);
    }
    expect(service.registry.list().map(({ name }) => name)).toEqual(['R']);
    expect((await post(path, key, Buffer.from(`\uFEFF${json}`))).status).toBe(status);
  },
);

it('must be UTF-8: JSON in a form of a webhook', async () => {
  const post = await prepare(await startUploadService());
  for (const form of ['payload={"repository":"Gr%F6%DFe"}', 'repository=Größe']) {
    const answer = await post('api/webhooks/push', GROUP_KEY, Buffer.from(form, 'latin1'), FORM);
    expect([answer.status, await answer.text()]).toEqual([400, expect.stringContaining('UTF-8')]);
  }
  const known = await post(
    'api/webhooks/push',
    GROUP_KEY,
    Buffer.from('payload={"repository":"R+%C3%B6"}'),
    FORM,
  );
  expect([known.status, await known.text()]).toEqual([404, expect.stringContaining('R ö')]);
});
