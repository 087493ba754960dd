import { contentsPath, requestHeaders } from '../../src/lib/api/requests.ts';
import { findLeadingFolder } from '../../src/mirror/archive/policy.ts';
import { countNames, type ReferenceForm, referencesFor } from '../../src/mirror/upstream/contents.ts';
import { isObject, type JsonObject } from '../../src/probe/words.ts';
import { type Door, openDoor, type Reply, type Sent } from './http.ts';
import { given, holds, type Need, NotMet } from './verdict.ts';
import { readZip } from './zip.ts';

/** The service that is examined, and how far it is. */
export interface SubjectOptions {
  /** The application's address followed by `/api`. */
  readonly baseUrl: string;
  readonly apiKey: string;
  /** Null: v1 is not examined. */
  readonly apiToken: string | null;
  readonly groupKey: string | null;
  /** Whether repositories may be created; they stay. */
  readonly allowsWrites: boolean;
  /** Address of a Git repository to connect, `https://<host>/<path>.git`. */
  readonly externalUrl: string | null;
  /** What is sent with it; empty for a repository that anybody may read. */
  readonly externalCredential: { readonly username: string; readonly password: string };
  /** How many repositories, branches of each, and files of each branch are looked into. */
  readonly sample: number;
  readonly timeoutMs: number;
  readonly maxBodyBytes: number;
}

/** A repository of which all that is needed to ask for it is known. */
export interface KnownRepository {
  readonly id: string;
  readonly name: string;
  readonly fullName: string;
  readonly url: string | null;
  readonly createdAt: null;
}

/** A page of v1 and where it came from. */
export interface PageSeen {
  readonly address: URL;
  readonly body: JsonObject;
  readonly rows: readonly unknown[];
}

/** A branch that was downloaded whole. */
export interface SampledBranch {
  readonly repository: KnownRepository;
  /** As it stands in addresses. */
  readonly reference: string;
  /** Null: the one that is given when none is named. */
  readonly branch: string | null;
  readonly reply: Reply;
  /** By path; a folder around everything is taken off. */
  readonly files: ReadonlyMap<string, Buffer>;
  /** Paths of the workbooks that v1 lists on it. */
  readonly listed: readonly string[];
}

/** A file of a sampled branch. */
export interface SampledFile {
  readonly branch: SampledBranch;
  readonly path: string;
  readonly bytes: Buffer;
}

/** More pages than this are not read. */
const MAX_PAGES = 200;

function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | null = null;
  return () => (made ??= make());
}

/** Gives the JSON of an answer. @throws NotMet for another status than 200, and for anything but JSON */
export function jsonOf({ status, headers, body }: Reply): unknown {
  holds(status === 200, `status ${status}`);
  const type = headers['content-type'] ?? 'nothing';
  holds(
    /^application\/(?:[\w.+-]+\+)?json\b/i.test(type),
    `the content type is ${type}, not application/json`,
  );
  try {
    return JSON.parse(body.toString('utf8'));
  } catch {
    throw new NotMet('the body is no JSON');
  }
}

/** The service under examination: asks it, and remembers what it said for the statements after. */
export class Subject {
  readonly options: SubjectOptions;
  private readonly door: Door;

  constructor(options: SubjectOptions) {
    this.options = options;
    this.door = openDoor(new URL(options.baseUrl).origin, options);
  }

  close(): Promise<void> {
    return this.door.close();
  }

  /** What of {@link Need} is there. */
  has(need: Need): boolean {
    const { apiToken, groupKey, allowsWrites, externalUrl } = this.options;
    switch (need) {
      case 'token':
        return apiToken !== null;
      case 'group-key':
        return groupKey !== null;
      case 'writes':
        return allowsWrites;
      case 'external-url':
        return externalUrl !== null;
    }
  }

  /** Sends a request with these headers and no others. */
  send(target: string | URL, sent: Sent): Promise<Reply> {
    const address = target instanceof URL ? target : new URL(this.options.baseUrl + target);
    return this.door.send(address, sent);
  }

  /** Sends a request of the current API, with its three headers (section 5.1) and further ones. */
  current(target: string, more: Partial<Sent> = {}): Promise<Reply> {
    const headers = { ...requestHeaders('current', this.options.apiKey), ...more.headers };
    return this.send(target, { ...more, headers });
  }

  /** Sends a request of v1, with its three headers (section 5.2). */
  v1(target: string | URL): Promise<Reply> {
    return this.send(target, { headers: requestHeaders('v1', this.options.apiToken ?? '') });
  }

  /** The rows of `GET /repos`. @throws NotMet unless it is an array in JSON */
  readonly repositories = once(async () => {
    const value = jsonOf(await this.current('/repos'));
    holds(Array.isArray(value), 'the body is no array');
    return value as readonly unknown[];
  });

  /** Those of the rows that can be asked for. */
  readonly known = once(async (): Promise<readonly KnownRepository[]> => {
    const rows = await this.repositories();
    return rows.filter(isObject).flatMap(({ id, name, full_name: fullName, url }) => {
      if (typeof id !== 'string' || typeof name !== 'string' || typeof fullName !== 'string') return [];
      return [{ id, name, fullName, url: typeof url === 'string' ? url : null, createdAt: null }];
    });
  });

  /** All pages of the list of workbooks. */
  readonly pages = once(() => this.readPages('/v1/workbooks'));

  /** All pages of the list for a filter. */
  readonly processing = once(() => this.readPages('/v1/workbooks?status=processing'));
  readonly failure = once(() => this.readPages('/v1/workbooks?status=failure'));

  /** All rows of the list of workbooks that are objects. */
  async workbooks(): Promise<readonly JsonObject[]> {
    const rows = (await this.pages()).flatMap((page) => page.rows);
    given(rows.length > 0, 'no workbook is listed');
    return rows.filter(isObject);
  }

  /** Asks for a page of v1. @throws NotMet unless it is a page */
  async page(target: string | URL): Promise<PageSeen> {
    const address = target instanceof URL ? target : new URL(this.options.baseUrl + target);
    const body = jsonOf(await this.v1(address));
    holds(isObject(body), 'a page is no object');
    const { results } = body;
    holds(Array.isArray(results), 'a page has no array `results`');
    return { address, body, rows: results };
  }

  private async readPages(target: string): Promise<readonly PageSeen[]> {
    const pages = [await this.page(target)];
    const visited = new Set(pages.map(({ address }) => address.href));
    for (let last = pages[0]; typeof last?.body['next'] === 'string'; last = pages.at(-1)) {
      const next = URL.parse(last.body['next'], last.address.href);
      holds(next !== null, 'a reference `next` cannot be resolved');
      holds(!visited.has(next.href), 'the references `next` lead in a circle');
      given(pages.length < MAX_PAGES, `the list has more than ${MAX_PAGES} pages`);
      visited.add(next.href);
      pages.push(await this.page(next));
    }
    return pages;
  }

  /** Asks for contents by a reference that is encoded already. */
  contents(
    reference: string,
    path?: string,
    branch?: string | null,
    more: Partial<Sent> = {},
  ): Promise<Reply> {
    return this.current(contentsPath(reference, path, branch ?? undefined), more);
  }

  /** Which forms of reference give an archive, for one repository of each kind. */
  readonly references = once(async (): Promise<ReadonlyMap<string, ReadonlyMap<ReferenceForm, string>>> => {
    const known = await this.known();
    const counts = countNames(known);
    const found = new Map<string, Map<ReferenceForm, string>>();
    for (const repository of await this.chosen()) {
      const forms = new Map<ReferenceForm, string>();
      for (const { form, text } of referencesFor(repository, counts, null)) {
        const { status, body } = await this.contents(text);
        if (status === 200 && body.subarray(0, 2).toString('latin1') === 'PK') forms.set(form, text);
      }
      found.set(repository.id, forms);
    }
    return found;
  });

  /** The repositories that are looked into: those with listed workbooks first, and of both kinds. */
  private readonly chosen = once(async (): Promise<readonly KnownRepository[]> => {
    const known = await this.known();
    const listed = this.has('token') ? await this.branchesOf() : new Map<string, never>();
    const rank = ({ id, fullName }: KnownRepository): number =>
      listed.has(fullName) || listed.has(id) ? 0 : 1;
    const sorted = [...known].sort((a, b) => rank(a) - rank(b));
    const firstOfKind = [sorted.find(({ url }) => url === null), sorted.find(({ url }) => url !== null)];
    const order = new Set([...firstOfKind.filter((each) => each !== undefined), ...sorted]);
    return [...order].slice(0, this.options.sample);
  });

  /** The branches that v1 lists of each integration, with the paths of their workbooks. */
  private async branchesOf(): Promise<ReadonlyMap<string, ReadonlyMap<string, readonly string[]>>> {
    const found = new Map<string, Map<string, string[]>>();
    // What is wrong with the list of workbooks is said where that is examined.
    const pages = await this.pages().catch(() => []);
    for (const row of pages.flatMap(({ rows }) => rows)) {
      if (!isObject(row) || !isObject(row['version'])) continue;
      const { integration, name } = row;
      const { branch } = row['version'];
      if (typeof integration !== 'string' || typeof name !== 'string' || typeof branch !== 'string') continue;
      const branches = found.get(integration) ?? new Map<string, string[]>();
      branches.set(branch, [...(branches.get(branch) ?? []), name.replace(/^\//, '')]);
      found.set(integration, branches);
    }
    return found;
  }

  /** Branches that were downloaded whole. @throws NotMet when one is no archive */
  readonly samples = once(async (): Promise<readonly SampledBranch[]> => {
    const listed = this.has('token') ? await this.branchesOf() : new Map<string, never>();
    const references = await this.references();
    const samples: SampledBranch[] = [];
    for (const repository of await this.chosen()) {
      const reference = [...(references.get(repository.id)?.values() ?? [])][0];
      if (reference === undefined) continue;
      const branches =
        listed.get(repository.fullName) ?? listed.get(repository.id) ?? new Map<string, string[]>();
      const names = [...branches.keys()].slice(0, this.options.sample);
      for (const branch of names.length === 0 ? [null] : names) {
        const reply = await this.contents(reference, undefined, branch);
        holds(reply.status === 200, `the contents of a branch: status ${reply.status}`);
        const paths = branch === null ? [] : (branches.get(branch) ?? []);
        const files = withoutLeadingFolder(await readZip(reply.body), paths);
        samples.push({ repository, reference, branch, reply, files, listed: paths });
      }
    }
    return samples;
  });

  /** Branches with files in them. */
  async filled(): Promise<readonly SampledBranch[]> {
    const samples = (await this.samples()).filter(({ files }) => files.size > 0);
    given(samples.length > 0, 'no repository with files in it could be downloaded');
    return samples;
  }

  /** Files of the sampled branches: workbooks that are listed first, then those in folders. */
  async files(): Promise<readonly SampledFile[]> {
    return (await this.filled()).flatMap((branch) => {
      const rank = (path: string): number =>
        (branch.listed.includes(path) ? 0 : 1) - (path.includes('/') ? 0.5 : 0);
      const paths = [...branch.files.keys()].sort((a, b) => rank(a) - rank(b));
      return paths
        .slice(0, this.options.sample)
        .map((path) => ({ branch, path, bytes: branch.files.get(path) ?? Buffer.alloc(0) }));
    });
  }
}

function withoutLeadingFolder(
  files: ReadonlyMap<string, Buffer>,
  listed: readonly string[],
): ReadonlyMap<string, Buffer> {
  const found = findLeadingFolder([...files.keys()], listed);
  if (found.kind !== 'wrapped') return files;
  return new Map([...files].map(([path, bytes]) => [path.slice(found.folder.length + 1), bytes]));
}
