import { onTestFinished } from 'vitest';

import { FakeService } from './fake-service.ts';

/** Starts a fake service for the present test. */
export async function startFake(...knobs: Parameters<typeof FakeService.start>): Promise<FakeService> {
  const service = await FakeService.start(...knobs);
  onTestFinished(() => service.close().catch(() => {}));
  return service;
}
