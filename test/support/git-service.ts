import { createGitLibrary } from '../../src/server/git/library.ts';
import type { Registry } from '../../src/server/git/repositories.ts';
import { fixedKey } from '../../src/server/keys/keys.ts';
import type { Library, ProcessingStatus } from '../../src/server/http/library.ts';
import { createService, type RequestInfo, type Service } from '../../src/server/http/service.ts';

/** The result of the service's check of a workbook. */
export type Counters = Pick<ProcessingStatus, 'processing' | 'failure'>;

/** The embedded service on the repositories of a registry. */
export interface GitService extends Service {
  /** Sets the counters that v1 shows for a workbook, on all its branches; zero without. */
  readonly setCounters: (workbookId: string, counters: Counters) => void;
}

/** Makes the embedded service; closing it ends its git programs, and leaves the registry open. */
export function createGitService(options: {
  readonly registry: Registry;
  readonly apiKey: string;
  readonly apiToken?: string;
  readonly onRequest?: (info: RequestInfo) => void;
}): GitService {
  const { registry, apiKey, apiToken, onRequest } = options;
  const counters = new Map<string, Counters>();
  const library = createGitLibrary(registry);
  const counted: Library = {
    ...library,
    workbooks: async () => {
      const { rows } = await library.workbooks();
      const standingOf = ({ id }: (typeof rows)[number]): ProcessingStatus => ({
        status: 'success',
        processing: 0,
        failure: 0,
        ...counters.get(id),
      });
      return { rows, standingOf };
    },
  };
  const keys = [
    fixedKey('personal', 'tests', apiKey),
    ...(apiToken === undefined ? [] : [fixedKey('token', 'tests', apiToken)]),
  ];
  const service = createService({
    library: counted,
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
    setCounters: (workbookId, { processing, failure }) => counters.set(workbookId, { processing, failure }),
  };
}

const OUTCOMES: ReadonlyMap<string, RegExp> = new Map([
  ['cloned', /: cloned$/],
  ['fetched', /: fetched what changed$/],
  ['recovered', /: can be fetched again$/],
  ['failing', /: cannot be (?:cloned|fetched)[,;]/],
  ['damaged', /: the local copy is damaged;/],
]);

/** The outcomes of fetches in the log of a registry. */
export function outcomesIn(lines: readonly string[]): string[] {
  return lines.flatMap((line) =>
    [...OUTCOMES].filter(([, words]) => words.test(line)).map(([outcome]) => outcome),
  );
}
