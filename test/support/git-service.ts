import { expect, onTestFinished } from 'vitest';

import { requestHeaders } from '../../src/lib/api/requests.ts';
import { type ApiWorkbook, pageSchema, workbookSchema } from '../../src/lib/api/schemas.ts';
import { createGitLibrary } from '../../src/server/git/library.ts';
import type { Registry } from '../../src/server/git/repositories.ts';
import { fixedKey } from '../../src/server/keys/keys.ts';
import { createService, type RequestInfo } from '../../src/server/http/service.ts';

/** The key of the current API, and the one of v1. */
export const [KEY, TOKEN] = ['a-key-of-the-tests', 'a-token-of-the-tests'];

/** An embedded service. */
export type GitService = Awaited<ReturnType<typeof startGitService>>;

const KEYS = [fixedKey('personal', 'tests', KEY), fixedKey('token', 'tests', TOKEN)];

/** Starts the embedded service; it is closed with the running test. @param options other than those of the tests */
export async function startGitService(
  registry: Registry,
  onRequest: (info: RequestInfo) => void = () => {},
  options: Partial<Parameters<typeof createService>[0]> = {},
  library = createGitLibrary(registry),
) {
  const common = { library, changes: library.changes, keys: () => Promise.resolve(KEYS), onRequest };
  const service = createService({ ...common, ...options });
  const closeAll = async (): Promise<void> => {
    await service.close();
    await library.close();
    await registry.close();
  };
  let closed: Promise<void> | undefined;
  /** Ends its git programs, and closes the registry. */
  const close = (): Promise<void> => (closed ??= closeAll());
  onTestFinished(close);
  const { baseUrl } = await service.listen({ host: '127.0.0.1', port: 0 });
  /** The list of workbooks, which must fit on a page. */
  const rows = async (): Promise<ApiWorkbook[]> => {
    const headers = requestHeaders('v1', TOKEN);
    const response = await fetch(`${baseUrl}/v1/workbooks?page_size=1000`, { headers });
    const { results, next } = pageSchema.parse(await response.json());
    expect(next).toBeNull();
    return results.map((row) => workbookSchema.parse(row));
  };
  return { baseUrl, close, rows };
}

const OUTCOMES: ReadonlyMap<string, RegExp> = new Map([
  ['cloned', /: cloned$/],
  ['fetched', /: fetched what changed$/],
  ['recovered', /: can be fetched again$/],
  ['failing', /: cannot be (?:cloned|fetched)[,;]/],
]);

/** The outcomes of fetches in the log of a registry. */
export function outcomesIn(lines: readonly string[]): string[] {
  return lines.flatMap((line) =>
    [...OUTCOMES].filter(([, words]) => words.test(line)).map(([outcome]) => outcome),
  );
}
