import { fork } from 'node:child_process';
import { once } from 'node:events';

import { type FakeRepository, FakeService, type Fault } from '../support/fake-service.ts';
import { randomOf } from '../support/sweep.ts';
import { type BenchFile, contentOf, type DataSet, filesOf, fullNameOf } from './data.ts';

/** A fault of the service. */
export type Trouble =
  /** Contents break off after so many bytes. */
  | { readonly kind: 'cut'; readonly after: number }
  /** The contents of the first repository come a byte at a time. */
  | { readonly kind: 'slow' }
  /** This share of the answers is wrong in various ways. */
  | { readonly kind: 'any'; readonly share: number };

type Order =
  | { readonly kind: 'open'; readonly data: DataSet }
  | { readonly kind: 'change'; readonly at: number; readonly paths: readonly string[] }
  | { readonly kind: 'count' }
  | { readonly kind: 'set'; readonly trouble?: Trouble | null; readonly digests?: boolean };

/** A service on a data set, in a process of its own. */
export type BenchService = Awaited<ReturnType<typeof startService>>;

/** Starts a service on a data set. */
export async function startService(data: DataSet) {
  const child = fork(import.meta.filename, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  const ask = async (order: Order): Promise<unknown> => {
    const answer = once(child, 'message');
    child.send(order);
    return ((await answer) as unknown[])[0];
  };
  const versions = new Map<string, number>();
  await once(child, 'message');
  const baseUrl = String(await ask({ kind: 'open', data }));
  return {
    baseUrl,
    data,
    files: filesOf(data),
    /** The current bytes of a file. */
    contentOf: (at: number, file: BenchFile) =>
      contentOf(data, at, file, versions.get(`${at} ${file.path}`) ?? 1),
    /** Makes a new version of files. */
    change: async (at: number, paths: readonly string[]) => {
      for (const path of paths) versions.set(`${at} ${path}`, (versions.get(`${at} ${path}`) ?? 1) + 1);
      await ask({ kind: 'change', at, paths });
    },
    set: async (what: Omit<Extract<Order, { kind: 'set' }>, 'kind'>) =>
      void (await ask({ kind: 'set', ...what })),
    /** The bytes sent so far, headers included. */
    sentBytes: async () => Number(await ask({ kind: 'count' })),
    close: () => child.disconnect(),
  };
}

/** Runs in the process of the service. */
async function serve(): Promise<void> {
  // It uses the same keys as every test.
  const service = await FakeService.start({
    pageSize: 500,
    digests: true,
    keepsPages: true,
    ranges: true,
    etag: 'strong',
    conditional: true,
  });
  let data: DataSet | null = null;
  const repositories: FakeRepository[] = [];
  const versions = new Map<string, number>();
  const write = (of: DataSet, at: number, file: BenchFile): void => {
    const version = (versions.get(`${at} ${file.path}`) ?? 0) + 1;
    versions.set(`${at} ${file.path}`, version);
    const repository = (repositories[at] ??= service.addRepository(fullNameOf(of, at)));
    service.write(repository, 'main', file.path, contentOf(of, at, file, version));
  };
  /** Makes the archive of a repository, which the first contender would wait for. */
  const prepare = async ({ id }: FakeRepository): Promise<void> => {
    const headers = { 'x-api-key': service.apiKey };
    const ask = async (): Promise<unknown> =>
      (await fetch(`${service.baseUrl}/repos/${id}/contents?branch=main`, { headers })).bytes();
    // A fault of the soak may cut the answer; the archive was made before.
    await ask().catch(() => {});
  };
  const done = async (order: Order): Promise<string> => {
    if (order.kind === 'open') {
      ({ data } = order);
      service.knobs.compression = data.isCompressible ? 'deflated' : 'stored';
      for (let at = 0; at < data.repositories; at += 1)
        for (const file of filesOf(data)) write(data, at, file);
      return service.baseUrl;
    }
    if (order.kind === 'change' && data !== null) {
      const paths = new Set(order.paths);
      for (const file of filesOf(data)) if (paths.has(file.path)) write(data, order.at, file);
      const repository = repositories[order.at];
      if (repository !== undefined) await prepare(repository);
    }
    if (order.kind === 'set') {
      if (order.digests !== undefined) service.knobs.digests = order.digests;
      if (order.trouble !== undefined) service.fault = faultsOf(order.trouble, repositories[0]?.id ?? '');
    }
    return String(service.sentBytes);
  };
  process.on('message', (order: Order) => void done(order).then((text) => process.send?.(text)));
  process.on('disconnect', () => process.exit());
  process.send?.('ready');
}

function faultsOf(trouble: Trouble | null, slow: string): ((path: string) => Fault | null) | null {
  if (trouble === null) return null;
  const isContents = (path: string): boolean => path.includes('/contents');
  if (trouble.kind === 'cut')
    return (path) => (isContents(path) ? { kind: 'cut', after: trouble.after } : null);
  if (trouble.kind === 'slow')
    return (path) => (path.includes(slow) ? { kind: 'trickle', everyMs: 20 } : null);
  const random = randomOf(1);
  const ways: readonly Fault[] = [
    { kind: 'status', status: 500 },
    { kind: 'status', status: 429, headers: { 'retry-after': '0' } },
    { kind: 'truncate', keep: 20 },
    { kind: 'html' },
    { kind: 'cut', after: 0 },
    { kind: 'cut', after: 2000 },
  ];
  return () => (random() < trouble.share ? (ways[Math.floor(random() * ways.length)] ?? null) : null);
}

if (process.send !== undefined && import.meta.main) await serve();
