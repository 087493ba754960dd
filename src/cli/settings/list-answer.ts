import {
  type Generation,
  REPOSITORIES_PATH,
  underOtherName,
  WORKBOOKS_PATH,
} from '../../lib/api/requests.ts';
import { Asker, type ProbeAnswer } from '../../probe/connection.ts';

/** The first list of each generation of the API, by all its possible names. */
const LISTS: Readonly<Record<Generation, readonly string[]>> = {
  current: [REPOSITORIES_PATH, underOtherName(REPOSITORIES_PATH)],
  v1: [WORKBOOKS_PATH],
};

/** Timeouts of one answer and of all answers, in milliseconds. */
const ANSWER_MS = 10_000;
const ALL_MS = 60_000;

/**
 * Asks a service for a list, once by each of its names until one exists.
 * @param key null to ask without one
 * @returns the last answer, with status 0 if none came; undefined if nothing was sent in time
 */
export async function askForList(
  baseUrl: string,
  generation: Generation,
  key: string | null,
): Promise<Omit<ProbeAnswer, 'body'> | undefined> {
  const targets = LISTS[generation];
  const asker = new Asker({
    baseUrl,
    credential: () => key,
    timeoutMs: ANSWER_MS,
    signal: AbortSignal.timeout(ALL_MS),
    maxRequests: targets.length,
    onProgress: () => {},
  });
  for (const target of targets) {
    // It throws if the key is refused, or the service asks for fewer requests: the status says so.
    await asker.ask({ target, generation }).catch(() => {});
    if (asker.answers.at(-1)?.status !== 404) break;
  }
  await asker.close();
  return asker.answers.at(-1);
}
