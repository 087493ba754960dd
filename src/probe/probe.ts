import { REPOSITORIES_PATH } from '../lib/api/requests.ts';
import { MirrorError } from '../lib/errors/errors.ts';
import { roughSize } from '../lib/text/humanize.ts';
import type { Repository } from '../mirror/upstream/listing.ts';
import { ARCHIVES, NO_SUBJECT, UNREADABLE } from './archives.ts';
import { type Ask, type Asker, createAsker, type ProbeLimits, ProbeStopped } from './asker.ts';
import type { ProbeAnswer, ProbeConnection } from './connection.ts';
import { CREDENTIALS } from './credentials.ts';
import { FILES, NO_FILE, REQUESTS } from './files.ts';
import { PAGES } from './pages.ts';
import { BRANCHES, REFERENCES, tryReferences } from './references.ts';
import { LIST_BYTES, NO_REPOSITORY_LIST, readRepositoryList, REPOSITORIES } from './repositories.ts';
import { chooseSubject, type Subject } from './subject.ts';
import { answersTo, type Finding } from './table.ts';
import { TRANSPORT } from './transport.ts';
import { shapeOf } from './words.ts';
import { askForWorkbooks, type WorkbookList } from './workbook-list.ts';
import { V1, WORKBOOKS } from './workbooks.ts';

/** How a service is probed. */
export interface ProbeOptions extends ProbeLimits {
  readonly connection: ProbeConnection;
  /** The application's address followed by `/api`. */
  readonly baseUrl: string;
  /** Whether there is a token to ask v1 with. */
  readonly asksV1: boolean;
  /** Whether it also asks without a credential, and with one that is made up. */
  readonly triesWrongKey: boolean;
  /** Waits for so many milliseconds. @throws MirrorError `pass.abandoned` */
  readonly pause: (delayMs: number) => Promise<void>;
  /** Told before each request what is being asked, and how many requests there were. */
  readonly onProgress: (what: string, sent: number) => void;
}

/** The findings of a probe. They name no repository, workbook, person, host or key. */
export interface ProbeReport {
  /** Version of this format. */
  readonly format: 1;
  readonly requests: number;
  /** Why it ended before everything was asked; null when it did not. */
  readonly stopped: string | null;
  readonly findings: readonly Finding[];
}

/**
 * Asks a service how it behaves where its specification says "not shown". It reads only.
 * @throws MirrorError `credentials.refused`, `service.unreachable`, `service.not_found` or `service.wrong_kind` when the list of
 *   repositories cannot be had, without which nothing can be asked; `pass.abandoned`
 */
export async function probe(options: ProbeOptions): Promise<ProbeReport> {
  const { connection } = options;
  const asker = createAsker(connection, options, options.pause, options.onProgress);
  const list = await firstList(asker.about(THE_LIST));
  const findings: Finding[] = [];
  let stopped: string | null = null;
  try {
    for await (const step of steps(asker, list, options)) findings.push(...step);
  } catch (error) {
    if (!(error instanceof ProbeStopped)) throw error;
    stopped = error.message;
  }
  const traffic = {
    all: asker.answers,
    heads: asker.answers.filter(({ status }) => status > 0),
    offersHttp2: await connection.offersHttp2(),
    connections: connection.connections(),
  };
  findings.push(...(await answersTo(TRANSPORT, traffic, asker.about('transport'))));
  return { format: 1, requests: asker.answers.length, stopped, findings };
}

const THE_LIST = 'the list of repositories';

/** Goes through the tables. What a step found is given only when all of it was asked. */
async function* steps(
  asker: Asker,
  answer: ProbeAnswer,
  { baseUrl, asksV1, triesWrongKey, maxDownloadBytes }: ProbeOptions,
): AsyncGenerator<readonly Finding[]> {
  const list = readRepositoryList(answer);
  const { repositories } = list;
  yield answersTo(list.isArray ? REPOSITORIES : NO_REPOSITORY_LIST, list, asker.about(THE_LIST));
  let ask = asker.about('the list of workbooks');
  const workbooks = asksV1 ? await askForWorkbooks(ask, baseUrl) : null;
  yield aboutWorkbooks(ask, workbooks, repositories, baseUrl);
  const listed = workbooks?.listed ?? [];
  ask = asker.about('references');
  const tried = await tryReferences(ask, repositories, listed);
  yield answersTo(REFERENCES, tried, ask);
  ask = asker.about('the contents of a small repository');
  const subject = await chooseSubject(ask, repositories, listed, tried.form, maxDownloadBytes);
  yield aboutContents(ask, subject, maxDownloadBytes);
  const generations = asksV1 ? (['current', 'v1'] as const) : (['current'] as const);
  yield answersTo(CREDENTIALS, { generations: triesWrongKey ? generations : [] }, asker.about('credentials'));
}

async function aboutWorkbooks(
  ask: Ask,
  list: WorkbookList | null,
  repositories: readonly Repository[],
  baseUrl: string,
): Promise<readonly Finding[]> {
  const isThere = await answersTo(V1, { list }, ask);
  if (list === null || list.pages.length === 0) return isThere;
  const pages = await answersTo(PAGES, { ...list, baseUrl }, ask);
  return [...isThere, ...pages, ...(await answersTo(WORKBOOKS, { ...list, repositories }, ask))];
}

async function aboutContents(
  ask: Ask,
  subject: Subject | null,
  maxDownloadBytes: number,
): Promise<readonly Finding[]> {
  if (subject === null) return answersTo(NO_SUBJECT, { maxDownload: roughSize(maxDownloadBytes) }, ask);
  const { facts, file } = subject;
  return [
    ...(await answersTo(BRANCHES, subject, ask)),
    ...(await (facts === null
      ? answersTo(UNREADABLE, subject, ask)
      : answersTo(ARCHIVES, { ...subject, facts }, ask))),
    ...(await answersTo(REQUESTS, subject, ask)),
    ...(await (file === null
      ? answersTo(NO_FILE, subject, ask)
      : answersTo(FILES, { ...subject, file }, ask))),
  ];
}

/** Asks for what everything else depends on. */
async function firstList(ask: Ask): Promise<ProbeAnswer> {
  const answer = await ask({ target: REPOSITORIES_PATH, maxBytes: LIST_BYTES }).catch((error: unknown) => {
    if (error instanceof ProbeStopped) throw cannotBegin(error.message);
    throw error;
  });
  if (answer.status === 200) return answer;
  if (answer.failure !== null) throw answer.failure;
  if (answer.status === 403) throw cannotBegin('the service refused the credential (status 403)');
  const code = answer.status === 404 ? 'service.not_found' : 'service.wrong_kind';
  throw new MirrorError(code, `The list of repositories was answered with ${shapeOf(answer)}.`, {
    hint: 'Check the setting service.baseUrl: it is the address of the application followed by /api.',
  });
}

function cannotBegin(why: string): MirrorError {
  const [code, hint] = why.includes('credential')
    ? (['credentials.refused', 'Check the setting service.apiKey: a personal API key is needed.'] as const)
    : (['service.busy', 'Try again later.'] as const);
  return new MirrorError(code, `Nothing could be asked: ${why}.`, { hint });
}
