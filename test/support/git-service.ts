import { createGitLibrary } from '../../src/server/git/library.ts';
import type { Registry } from '../../src/server/git/repositories.ts';
import { fixedKey } from '../../src/server/keys/keys.ts';
import { createService, type RequestInfo, type Service } from '../../src/server/http/service.ts';

/** Makes the embedded service; closing it ends its git programs, and leaves the registry open. */
export function createGitService(options: {
  readonly registry: Registry;
  readonly apiKey: string;
  readonly apiToken?: string;
  readonly onRequest?: (info: RequestInfo) => void;
}): Service {
  const { registry, apiKey, apiToken, onRequest } = options;
  const library = createGitLibrary(registry);
  const keys = [
    fixedKey('personal', 'tests', apiKey),
    ...(apiToken === undefined ? [] : [fixedKey('token', 'tests', apiToken)]),
  ];
  const service = createService({
    library,
    changes: library.changes,
    keys: () => Promise.resolve(keys),
    ...(onRequest === undefined ? {} : { onRequest }),
  });
  return {
    listen: service.listen,
    close: async () => {
      await service.close();
      await library.close();
    },
  };
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
