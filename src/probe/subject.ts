import { contentsPath, REPOSITORIES_PATH, underOtherName, WORKBOOKS_PATH } from '../lib/api/requests.ts';
import { pageSchema, repositorySchema } from '../lib/api/schemas.ts';
import { countNames, type ReferenceForm, referencesFor } from '../mirror/upstream/contents.ts';
import type { Repository } from '../mirror/upstream/listing.ts';
import { nextPageUrl } from '../mirror/upstream/workbooks.ts';
import { type Archive, readArchive } from './archive.ts';
import type { Asker, ProbeAnswer, ProbeRequest } from './connection.ts';
import { isArchive, isObject, jsonOf, type JsonObject, shapeOf } from './words.ts';
import { given, holds, type Need, NotMet } from './verdict.ts';

/** Credentials to ask with, and bounds of what is looked into. */
export interface SubjectOptions {
  readonly baseUrl: string;
  /** Null where v1 is not asked. */
  readonly apiToken: string | null;
  /** Credentials that must be refused where they do not belong; null where none but the right one may be sent. */
  readonly wrong: { readonly apiKey?: string; readonly groupKey?: string } | null;
  /** How many repositories, branches of each, and files of each branch are looked into. */
  readonly sample: number;
  /** Greatest archive or file that is downloaded, in bytes. */
  readonly maxDownloadBytes: number;
}

/** A page of v1, and where it came from. */
export interface PageSeen {
  readonly address: URL;
  readonly body: JsonObject;
  readonly count: number;
  readonly rows: readonly unknown[];
}

/** The pages of the list of workbooks. */
export interface PageList {
  /** In their order, as far as they were followed. */
  readonly pages: readonly PageSeen[];
  /** Why not all of them could be followed; null when they could. */
  readonly cut: string | null;
}

/** A workbook on a branch. */
export interface ListedWorkbook {
  readonly integration: string;
  readonly branch: string;
  /** Without the slash that its name begins with. */
  readonly path: string;
}

/** A branch that was downloaded whole. */
export interface SampledBranch extends Archive {
  readonly repository: Repository;
  /** As it stands in addresses, encoded. */
  readonly reference: string;
  /** Null: the one that is given when none is named. */
  readonly branch: string | null;
  readonly answer: ProbeAnswer;
  /** Paths of the workbooks that v1 lists on it. */
  readonly listed: readonly string[];
}

/** A file of a sampled branch. */
export interface SampledFile {
  readonly of: SampledBranch;
  readonly path: string;
  readonly bytes: Buffer;
}

/** How a repository answers to the forms of reference. */
export type AnswersByForm = ReadonlyMap<ReferenceForm, ProbeAnswer>;

/** Greatest list that is read, in bytes. */
export const LIST_BYTES = 64 * 1024 * 1024;

/** Pages that are followed at most. */
const MOST_PAGES = 25;

/** Repositories that are downloaded at most, also where they turn out to be empty or too large. */
const MOST_CANDIDATES = 8;

function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | null = null;
  return () => (made ??= make());
}

/**
 * The repositories in the order in which they are tried: those with fewest listed workbooks first, as they may be the
 * smallest, but those with none last, as there is little to see in them.
 */
export function orderCandidates(
  repositories: readonly Repository[],
  listed: readonly ListedWorkbook[],
): Repository[] {
  const weights = new Map(
    repositories.map((each) => [each, workbooksOf(each, listed).length || Number.MAX_SAFE_INTEGER]),
  );
  return [...repositories].sort((a, b) => (weights.get(a) ?? 0) - (weights.get(b) ?? 0));
}

function workbooksOf({ id, fullName }: Repository, listed: readonly ListedWorkbook[]): ListedWorkbook[] {
  return listed.filter(({ integration }) => integration === fullName || integration === id);
}

/** The form that finds contents; null where none does. */
export function workingForm(answers: AnswersByForm | null): ReferenceForm | null {
  return [...(answers ?? [])].find(([, answer]) => isArchive(answer))?.[0] ?? null;
}

/** The service under examination: asks it, and remembers what it said for the statements after. */
export class Subject {
  readonly options: SubjectOptions;
  readonly asker: Asker;

  constructor(asker: Asker, options: SubjectOptions) {
    this.asker = asker;
    this.options = options;
  }

  /** The parts of {@link Need} that are there. */
  has(need: Need): boolean {
    const { apiToken, wrong } = this.options;
    if (need === 'token') return apiToken !== null;
    return need === 'wrong-keys' ? wrong !== null : wrong?.groupKey !== undefined;
  }

  /** Sends a request; of the current API unless it says otherwise. */
  ask(request: ProbeRequest): Promise<ProbeAnswer> {
    const { target } = request;
    const isRenamed = this.#usesOtherName && typeof target === 'string';
    return this.asker.ask(isRenamed ? { ...request, target: underOtherName(target) } : request);
  }

  /** Asks for contents on a branch. @param path the whole where it is left out */
  askContents(
    { reference, branch }: Pick<SampledBranch, 'reference' | 'branch'>,
    path?: string,
    more: Omit<ProbeRequest, 'target'> = {},
  ): Promise<ProbeAnswer> {
    const target = contentsPath(reference, path, branch ?? undefined);
    return this.ask({ target, maxBytes: this.options.maxDownloadBytes, ...more });
  }

  /** Whether the installation answers `/repositories` alone. Then it is asked for everything by that name, as the mirror asks. */
  #usesOtherName = false;

  /** Whether {@link repositoryList} found the list under `/repositories` alone. */
  get usesOtherName(): boolean {
    return this.#usesOtherName;
  }

  /** The answer to `GET /repos`, or to `GET /repositories` where only that exists. */
  readonly repositoryList = once(async () => {
    const list = { target: REPOSITORIES_PATH, maxBytes: LIST_BYTES };
    const answer = await this.ask(list);
    if (answer.status !== 404) return answer;
    const other = await this.ask({ ...list, target: underOtherName(REPOSITORIES_PATH) });
    this.#usesOtherName = other.status === 200;
    return this.#usesOtherName ? other : answer;
  });

  /** The rows of `GET /repos`. @throws NotMet unless it is an array in JSON */
  readonly repositoryRows = once(async (): Promise<readonly unknown[]> => {
    const answer = await this.repositoryList();
    const value = jsonOf(answer);
    holds(answer.status === 200 && Array.isArray(value), shapeOf(answer));
    return value as readonly unknown[];
  });

  /** Those of the rows that the mirror would take. */
  readonly repositories = once(async (): Promise<readonly Repository[]> => {
    const rows = (await unlessNotMet(this.repositoryRows())) ?? [];
    return rows.flatMap((row) => {
      const parsed = repositorySchema.safeParse(row);
      if (!parsed.success) return [];
      const { id, name, full_name: fullName, url, created_at: createdAt } = parsed.data;
      return [{ id, name, fullName, url: url ?? null, createdAt: createdAt ?? null }];
    });
  });

  /** Asks for a page of v1. @param target a query as it follows the path, or an address. @throws NotMet unless it is one */
  async page(target: string | URL = ''): Promise<PageSeen> {
    const address = target instanceof URL ? target : new URL(this.options.baseUrl + WORKBOOKS_PATH + target);
    const answer = await this.ask({ generation: 'v1', target: address, maxBytes: LIST_BYTES });
    const body = jsonOf(answer);
    const parsed = answer.status === 200 ? pageSchema.safeParse(body) : null;
    if (parsed?.success !== true || !isObject(body)) throw new NotMet(shapeOf(answer));
    return { address, body, count: parsed.data.count, rows: parsed.data.results };
  }

  /** Reads a list of workbooks, and follows its pages as the mirror does. @throws NotMet unless the first answer is a page */
  async readPages(query = ''): Promise<PageList> {
    const pages = [await this.page(query)];
    for (let last = pages[0]; typeof last?.body['next'] === 'string' && last.body['next'] !== '';) {
      if (pages.length === MOST_PAGES) return { pages, cut: 'too many' };
      const next = nextAfter(last.body['next'], pages);
      if (next === null) return { pages, cut: 'not to be followed' };
      const page = await unlessNotMet(this.page(next));
      if (page === null) return { pages, cut: 'answer of another kind' };
      pages.push(page);
      last = page;
    }
    return { pages, cut: null };
  }

  /** All pages of the list of workbooks. */
  readonly pages = once(() => this.readPages());

  /** All rows of the list of workbooks that are objects. @throws NotTried where none is listed */
  async workbooks(): Promise<readonly JsonObject[]> {
    const rows = await this.#rows();
    given(rows.length > 0, 'no workbook is listed');
    return rows;
  }

  /** The rows of the list of workbooks that are objects. Faults of the list are reported where that is examined. */
  async #rows(): Promise<readonly JsonObject[]> {
    const list = await unlessNotMet(this.pages());
    return (list?.pages ?? []).flatMap((page) => page.rows).filter(isObject);
  }

  /** The rows that say where they belong; none where v1 is not asked. */
  readonly listed = once(async (): Promise<readonly ListedWorkbook[]> => {
    if (!this.has('token')) return [];
    return (await this.#rows()).flatMap(({ integration, name, version }) => {
      const branch = isObject(version) ? version['branch'] : null;
      if (typeof integration !== 'string' || typeof name !== 'string' || typeof branch !== 'string')
        return [];
      return [{ integration, branch, path: name.replace(/^\/+/, '') }];
    });
  });

  /** How one repository of each kind answers to the forms of reference; null where there is none of that kind. */
  readonly references = once(async () => {
    const repositories = await this.repositories();
    const candidates = orderCandidates(repositories, await this.listed());
    const counts = countNames(repositories);
    const tryOne = async (repository: Repository | undefined): Promise<AnswersByForm | null> => {
      if (repository === undefined) return null;
      const answers = new Map<ReferenceForm, ProbeAnswer>();
      for (const { form, text } of referencesFor(repository, counts, null))
        answers.set(form, await this.ask({ target: contentsPath(text) }));
      return answers;
    };
    return {
      git: await tryOne(candidates.find(({ url }) => url !== null)),
      dragAndDrop: await tryOne(candidates.find(({ url }) => url === null)),
    };
  });

  /** Branches of some repositories that have files, downloaded whole; and what is wrong with those that are not whole. */
  readonly downloads = once(async () => {
    const { sample } = this.options;
    const samples: SampledBranch[] = [];
    const faults: string[] = [];
    const repositories = new Set<string>();
    for (const { repository, reference } of await this.#candidates()) {
      if (repositories.size === sample) break;
      const workbooks = workbooksOf(repository, await this.listed());
      const branches = [...new Set(workbooks.map(({ branch }) => branch))].slice(0, sample);
      for (const branch of branches.length === 0 ? [null] : branches) {
        const answer = await this.askContents({ reference, branch });
        if (answer.status === 200 && !answer.isWhole) continue;
        const listed = workbooks.flatMap((each) => (each.branch === branch ? [each.path] : []));
        const archive = await archiveOf(answer, listed);
        if (typeof archive === 'string') faults.push(archive);
        else if (archive.files.size > 0) {
          samples.push({ ...archive, repository, reference, branch, answer, listed });
          repositories.add(repository.id);
        }
      }
    }
    return { samples, faults };
  });

  /** The branches that were downloaded. @throws NotTried where there is none */
  async samples(): Promise<readonly [SampledBranch, ...SampledBranch[]]> {
    const [first, ...more] = (await this.downloads()).samples;
    given(first !== undefined, 'no repository with files could be downloaded within the limit');
    return [first, ...more];
  }

  /** Repositories that can be asked for, with the reference for each. */
  async #candidates() {
    const repositories = await this.repositories();
    const { git, dragAndDrop } = await this.references();
    const [gitForm, dragAndDropForm] = [workingForm(git), workingForm(dragAndDrop)];
    const counts = countNames(repositories);
    return orderCandidates(repositories, await this.listed())
      .slice(0, MOST_CANDIDATES)
      .flatMap((repository) => {
        const form = (repository.url === null ? dragAndDropForm : gitForm) ?? gitForm ?? dragAndDropForm;
        const reference = form === null ? undefined : referencesFor(repository, counts, form)[0]?.text;
        return reference === undefined ? [] : [{ repository, reference }];
      });
  }

  /** Files of the sampled branches: workbooks that are listed first, then those in folders. @throws NotTried where there is none */
  async files(): Promise<readonly [SampledFile, ...SampledFile[]]> {
    const files = (await this.samples()).flatMap((of) => {
      const rank = (path: string): number =>
        (of.listed.includes(path) ? 0 : 1) - (path.includes('/') ? 0.5 : 0);
      const paths = [...of.files.keys()].sort((a, b) => rank(a) - rank(b));
      return paths
        .slice(0, this.options.sample)
        .map((path) => ({ of, path, bytes: of.files.get(path) ?? Buffer.alloc(0) }));
    });
    const [first, ...more] = files;
    given(first !== undefined, 'no file was found');
    return [first, ...more];
  }
}

/** The archive in an answer, or what is wrong with it. @throws NotTried where it is too much */
async function archiveOf(answer: ProbeAnswer, listed: readonly string[]): Promise<Archive | string> {
  if (!isArchive(answer)) return `the contents of a branch: ${shapeOf(answer)}`;
  try {
    return await readArchive(answer.body, listed);
  } catch (error) {
    if (error instanceof NotMet) return error.message;
    throw error;
  }
}

/** Null where what was asked for is not as specified. */
async function unlessNotMet<T>(asked: Promise<T>): Promise<T | null> {
  try {
    return await asked;
  } catch (error) {
    if (error instanceof NotMet) return null;
    throw error;
  }
}

/** Where the mirror finds the next page; null where it finds none, or one that it read before. */
function nextAfter(next: string, pages: readonly PageSeen[]): URL | null {
  const current = pages.at(-1)?.address;
  try {
    const address = current === undefined ? null : nextPageUrl(next, current);
    return pages.some((page) => page.address.href === address?.href) ? null : address;
  } catch {
    return null;
  }
}
