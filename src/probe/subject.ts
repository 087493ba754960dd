import type { z } from 'zod';

import { contentsPath, REPOSITORIES_PATH, underOtherName, WORKBOOKS_PATH } from '../lib/api/requests.ts';
import { type ApiWorkbook, pageSchema, workbookSchema } from '../lib/api/schemas.ts';
import { countNames, type ReferenceForm, referencesFor } from '../lib/api/references.ts';
import type { Repository } from '../mirror/upstream/listing.ts';
import { readRepositoryRows } from '../mirror/upstream/lists.ts';
import { nextPageUrl } from '../mirror/upstream/workbooks.ts';
import { type Archive, readArchive } from './archive.ts';
import { type AskOptions, Asker, type ProbeAnswer, type ProbeRequest } from './connection.ts';
import { atLeastOne, given, holds, NotMet, orNull } from './verdict.ts';
import { isArchive, jsonOf, shapeOf } from './words.ts';

/** Settings of a probe. */
export interface ProbeOptions extends AskOptions {
  /** Whether requests without a credential, and with one that is made up, may be sent. */
  readonly withWrongKey: boolean;
  /** Number of sampled repositories, branches of each, and files of each branch. */
  readonly sample: number;
  /** Largest archive or file to download, in bytes. */
  readonly maxDownloadBytes: number;
}

/** A page of v1, and its address. */
export type PageSeen = Readonly<z.infer<typeof pageSchema>> & { readonly address: URL };

/** The pages of the list of workbooks. */
export interface PageList {
  /** In their order, as far as they could be followed. */
  readonly pages: readonly PageSeen[];
  /** Why not all could be followed; null if they could. */
  readonly cut: 'too many' | 'not to be followed' | 'answer of another kind' | null;
}

/** A fully downloaded branch. */
export interface SampledBranch extends Archive {
  readonly repository: Repository;
  /** As in addresses, encoded. */
  readonly reference: string;
  /** Null for the default branch. */
  readonly branch: string | null;
  readonly answer: ProbeAnswer;
  /** Paths of its workbooks in v1's list. */
  readonly listed: readonly string[];
}

/** A repository's answers to the forms of reference. */
type AnswersByForm = ReadonlyMap<ReferenceForm, ProbeAnswer>;

/** Largest list to read, in bytes. */
export const LIST_BYTES = 64 * 1024 * 1024;

/** The answer about v1 if it is not probed. */
const NO_TOKEN = 'not asked: there is no token';

/** Most pages to follow. */
const MOST_PAGES = 25;

/** Most repositories to download, including empty and too large ones. */
const MOST_CANDIDATES = 8;

function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | null = null;
  return () => (made ??= make());
}

/**
 * The repositories in the order in which they are tried: the fewest listed workbooks first, as these may be the
 * smallest, but repositories without any last, as they show little.
 */
export function orderCandidates(
  repositories: readonly Repository[],
  listed: ReadonlyArray<Pick<ApiWorkbook, 'integration'>>,
): Repository[] {
  const weights = new Map(
    repositories.map((each) => [each, workbooksOf(each, listed).length || Number.MAX_SAFE_INTEGER]),
  );
  return [...repositories].sort((a, b) => (weights.get(a) ?? 0) - (weights.get(b) ?? 0));
}

function workbooksOf<T extends Pick<ApiWorkbook, 'integration'>>(
  { id, fullName }: Repository,
  listed: readonly T[],
): T[] {
  return listed.filter(({ integration }) => integration === fullName || integration === id);
}

/** The rows of all pages. */
export function rowsOf({ pages }: PageList): readonly unknown[] {
  return pages.flatMap(({ results }) => results);
}

/** The form that finds contents; null if none does. */
export function workingForm(answers: AnswersByForm | null): ReferenceForm | null {
  return [...(answers ?? [])].find(([, answer]) => isArchive(answer))?.[0] ?? null;
}

/** The probed service: sends requests, and keeps the answers for later statements. */
export class Subject {
  readonly options: ProbeOptions;
  readonly asker: Asker;
  /** Null if v1 is not probed. */
  readonly apiToken: string | null;
  /** Whether only `/repositories` is answered. Then that name is used for all requests, as the mirror does. */
  usesOtherName = false;

  constructor(options: ProbeOptions) {
    this.options = options;
    this.asker = new Asker(options);
    this.apiToken = options.credential('v1');
  }

  /** Sends a request, by default to the current API. */
  ask(request: ProbeRequest): Promise<ProbeAnswer> {
    const { target } = request;
    const isRenamed = this.usesOtherName && typeof target === 'string';
    return this.asker.ask(isRenamed ? { ...request, target: underOtherName(target) } : request);
  }

  /** Requests contents on a branch. @param path everything if omitted */
  askContents(
    { reference, branch }: Pick<SampledBranch, 'reference' | 'branch'>,
    path?: string,
    headers: ProbeRequest['headers'] = {},
  ): Promise<ProbeAnswer> {
    const target = contentsPath(reference, path, branch ?? undefined);
    return this.ask({ target, maxBytes: this.options.maxDownloadBytes, headers });
  }

  /** The answer to `GET /repos`, or to `GET /repositories` where only that exists. */
  readonly repositoryList = once(async () => {
    const list = { target: REPOSITORIES_PATH, maxBytes: LIST_BYTES };
    const answer = await this.ask(list);
    if (answer.status !== 404) return answer;
    const other = await this.ask({ ...list, target: underOtherName(REPOSITORIES_PATH) });
    this.usesOtherName = other.status === 200;
    return this.usesOtherName ? other : answer;
  });

  /** The rows of `GET /repos`. @throws NotMet unless it is an array in JSON */
  readonly repositoryRows = once(async (): Promise<readonly unknown[]> => {
    const answer = await this.repositoryList();
    const value = jsonOf(answer);
    holds(answer.status === 200 && Array.isArray(value), shapeOf(answer));
    return value as readonly unknown[];
  });

  /** The rows that the mirror would accept. */
  readonly repositories = once(async () => {
    const rows = await orNull(this.repositoryRows());
    return readRepositoryRows(rows ?? []).repositories;
  });

  /** Requests a page of v1. @param target the query after the path, or an address. @throws NotMet unless it is a page */
  async page(target: string | URL): Promise<PageSeen> {
    given(this.apiToken !== null, NO_TOKEN);
    const address = target instanceof URL ? target : new URL(this.options.baseUrl + WORKBOOKS_PATH + target);
    const answer = await this.ask({ generation: 'v1', target: address, maxBytes: LIST_BYTES });
    const { data } = pageSchema.safeParse(jsonOf(answer));
    if (answer.status !== 200 || data === undefined) throw new NotMet(shapeOf(answer));
    return { ...data, address };
  }

  /**
   * Reads a list of workbooks, and follows its pages as the mirror does.
   * @throws NotMet unless the first answer is a page
   */
  async readPages(query = ''): Promise<PageList> {
    const pages: PageSeen[] = [];
    let page = await this.page(query);
    for (;;) {
      pages.push(page);
      if ((page.next ?? '') === '') return { pages, cut: null };
      if (pages.length === MOST_PAGES) return { pages, cut: 'too many' };
      const address = addressAfter(page);
      if (address === null || pages.some((each) => each.address.href === address.href))
        return { pages, cut: 'not to be followed' };
      const next = await orNull(this.page(address));
      if (next === null) return { pages, cut: 'answer of another kind' };
      page = next;
    }
  }

  /** All pages of the list of workbooks. */
  readonly pages = once(() => this.readPages());

  /** All rows of the list of workbooks; other statements report faults of the list. @throws NotMet if none is listed */
  async rows(): Promise<readonly unknown[]> {
    given(this.apiToken !== null, NO_TOKEN);
    const list = await orNull(this.pages());
    return atLeastOne(list === null ? [] : rowsOf(list), 'no workbook is listed');
  }

  /** The rows that the mirror would accept. @throws NotMet if no row is listed */
  async workbooks(): Promise<readonly ApiWorkbook[]> {
    return (await this.rows()).flatMap((row) => workbookSchema.safeParse(row).data ?? []);
  }

  /** The same; none if v1 is not probed. */
  readonly listed = once(async () => (await orNull(this.workbooks())) ?? []);

  readonly #candidates = once(async () => orderCandidates(await this.repositories(), await this.listed()));

  /** The answers to the forms of reference, of the first repository of each kind with contents, else of the first; null without any. */
  readonly references = once(async () => {
    const candidates = await this.#candidates();
    const counts = countNames(candidates);
    const tryKind = async (isGit: boolean): Promise<AnswersByForm | null> => {
      let first: AnswersByForm | null = null;
      const ofKind = candidates.filter(({ url }) => (url !== null) === isGit);
      for (const repository of ofKind.slice(0, MOST_CANDIDATES)) {
        const answers = new Map<ReferenceForm, ProbeAnswer>();
        for (const { form, text } of referencesFor(repository, counts, null))
          answers.set(form, await this.ask({ target: contentsPath(text) }));
        if (workingForm(answers) !== null) return answers;
        first ??= answers;
      }
      return first;
    };
    return { git: await tryKind(true), dragAndDrop: await tryKind(false) };
  });

  /** Downloaded branches of some repositories with files, and the first fault of the others. */
  readonly downloads = once(async () => {
    const { sample } = this.options;
    const samples: SampledBranch[] = [];
    let fault: NotMet | null = null;
    const repositories = new Set<string>();
    for (const repository of (await this.#candidates()).slice(0, MOST_CANDIDATES)) {
      const reference = await this.#referenceTo(repository);
      if (reference === undefined || repositories.size === sample) break;
      const workbooks = workbooksOf(repository, await this.listed());
      const branches = [...new Set(workbooks.map(({ version }) => version.branch))].slice(0, sample);
      for (const branch of branches.length === 0 ? [null] : branches) {
        const answer = await this.askContents({ reference, branch });
        const onBranch = workbooks.filter(({ version }) => version.branch === branch);
        const listed = onBranch.map(({ name }) => name.replace(/^\/+/, ''));
        try {
          const archive = await readArchive(answer, listed);
          if (archive.files.size === 0) continue;
          samples.push({ ...archive, repository, reference, branch, answer, listed });
          repositories.add(repository.id);
        } catch (error) {
          if (!(error instanceof NotMet)) throw error;
          // An empty repository may have no contents.
          const isEmpty = answer.status === 404 && listed.length === 0;
          if (error.outcome === 'differs' && !isEmpty) fault ??= error;
        }
      }
    }
    return { samples, fault };
  });

  /** The downloaded branches. @throws NotMet without any */
  async samples(): Promise<readonly [SampledBranch, ...SampledBranch[]]> {
    const { samples } = await this.downloads();
    return atLeastOne(samples, 'no repository with files could be downloaded within the limit');
  }

  /** The first reference to a repository in a form that works, if possible for its kind; undefined without any. */
  async #referenceTo(repository: Repository): Promise<string | undefined> {
    const { git, dragAndDrop } = await this.references();
    const kinds = repository.url === null ? [dragAndDrop, git] : [git, dragAndDrop];
    const form = kinds.map(workingForm).find((each) => each !== null);
    const counts = countNames(await this.repositories());
    return form === undefined ? undefined : referencesFor(repository, counts, form)[0]?.text;
  }

  /** Files of the sampled branches: listed workbooks first, then files in folders. @throws NotMet without any */
  async files() {
    const files = (await this.samples()).flatMap((of) => {
      const rank = ([path]: readonly [string, Buffer]): number =>
        (of.listed.includes(path) ? 0 : 1) - (path.includes('/') ? 0.5 : 0);
      const inOrder = [...of.files].sort((a, b) => rank(a) - rank(b));
      return inOrder.slice(0, this.options.sample).map(([path, bytes]) => ({ of, path, bytes }));
    });
    return atLeastOne(files, 'no file was found');
  }
}

/** The address at which the mirror finds the next page; null if it cannot follow the reference. */
function addressAfter({ next, address }: PageSeen): URL | null {
  try {
    return nextPageUrl(next ?? '', address);
  } catch {
    return null;
  }
}
