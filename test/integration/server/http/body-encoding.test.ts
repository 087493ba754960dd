import { expect, it } from 'vitest';

import { GROUP_KEY, KEY, startUploadService, type UploadService } from '../../../support/upload-service.ts';

/** Every request whose body is read as JSON. */
const REQUESTS = [
  ['a repository is created', 'api/repos', KEY, { name: 'Größe' }, 201],
  ['a webhook', 'api/webhooks/push', GROUP_KEY, { repository: 'Größe' }, 404],
] as const;

async function prepare(service: UploadService) {
  await service.registry.create('R');
  return (path: string, key: string, bytes: Uint8Array): Promise<Response> =>
    fetch(service.origin + path, {
      method: 'POST',
      headers: { 'x-api-key': key, 'content-type': 'application/json' },
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
