/** Sends the bytes of files. */

import { filesText } from './format.js';
import { someAtOnce } from './pool.js';
import { sendFile, ServiceError } from './service.js';

/** @typedef {import('./queue.js').Item} Item */

/** As many as the service writes at once. */
const FILES_AT_ONCE = 4;

/**
 * Sends the files that the repository does not have yet.
 * @param {string} repositoryId
 * @param {readonly Item[]} items
 * @param {object} options
 * @param {AbortSignal} options.signal
 * @param {(text: string) => void} options.onStep
 * @param {(item: Item) => void} options.onItem called when something else is to be said of it
 * @throws {ServiceError} when one cannot be sent
 */
export async function sendItems(repositoryId, items, { signal, onStep, onItem }) {
  let sentCount = 0;
  let toldPercent = -1;
  const tellStep = () => {
    const percent = Math.floor((100 * sentCount) / items.length);
    // Readers by ear hear every one.
    if (percent !== toldPercent) onStep(`Sent ${sentCount} of ${filesText(items.length)}`);
    toldPercent = percent;
  };
  tellStep();
  await someAtOnce(items, { limit: FILES_AT_ONCE, signal }, async (item, inner) => {
    await sendItem(repositoryId, item, { signal: inner, onItem });
    sentCount += 1;
    tellStep();
  });
  if (signal.aborted) throw new ServiceError(0, 'stopped', 'Stopped.');
}

/**
 * @param {string} repositoryId
 * @param {Item} item
 * @param {{ signal: AbortSignal, onItem: (item: Item) => void }} options
 */
async function sendItem(repositoryId, item, { signal, onItem }) {
  item.failure = '';
  /** @param {number} share */
  const onProgress = (share) => {
    item.sentShare = share;
    onItem(item);
  };
  try {
    if (!item.blobIds.has(repositoryId))
      item.blobIds.set(repositoryId, await sendFile(repositoryId, item.file, { onProgress, signal }));
    onProgress(1);
  } catch (error) {
    if (error instanceof ServiceError && error.status !== 401 && error.code !== 'stopped')
      item.failure = error.message;
    onProgress(0);
    throw error;
  }
}
