import { createHash } from 'node:crypto';

import { contentsPath } from '../lib/api/requests.ts';
import { type ArchiveFacts, examineArchive } from './archive.ts';
import type { Asker } from './asker.ts';
import type { ProbeAnswer } from './connection.ts';
import { MISSING } from './references.ts';
import type { SubjectSeen } from './subjects.ts';

/** What was answered to the questions about branches and archives of the subject. */
export interface ContentsSeen {
  readonly subject: SubjectSeen;
  readonly facts: ArchiveFacts | null;
  /** The archive that is given without a branch. */
  readonly omitted: ArchiveFacts | null;
  readonly omittedTag: string | undefined;
  /** Archives of listed branches, in the order of the list, as far as they are small enough. */
  readonly branches: ReadonlyArray<{ readonly facts: ArchiveFacts | null; readonly tag: string | undefined }>;
  readonly listedBranches: number;
  readonly absentBranch: ProbeAnswer;
  readonly absentPath: ProbeAnswer;
  readonly again: ProbeAnswer;
  readonly slash: ProbeAnswer;
  readonly head: ProbeAnswer;
  /** With If-None-Match and the archive's tag; null where it has none. */
  readonly conditional: ProbeAnswer | null;
  readonly folder: FolderSeen | null;
  readonly file: FileSeen | null;
}

/** What was answered for a folder. */
export interface FolderSeen {
  readonly path: string;
  readonly answer: ProbeAnswer;
  readonly facts: ArchiveFacts | null;
  readonly slash: ProbeAnswer;
}

/** What was answered for a single file. */
export interface FileSeen {
  readonly path: string;
  readonly answer: ProbeAnswer;
  readonly head: ProbeAnswer;
  readonly conditional: ProbeAnswer | null;
  readonly range: ProbeAnswer;
  readonly compressed: ProbeAnswer;
}

const MOST_BRANCHES = 4;

/** A digest of an answer's body, to compare it with another. */
export function digestOf({ body }: Pick<ProbeAnswer, 'body'>): string {
  return createHash('sha256').update(body).digest('hex');
}

/** Asks for the subject's branches, folders and files. */
export async function askForContents(asker: Asker, subject: SubjectSeen): Promise<ContentsSeen> {
  const { reference, branch } = subject;
  const whole = { maxBytes: asker.maxDownloadBytes };
  const paths = (name: string | null): string[] =>
    subject.workbooks.flatMap((each) => (each.branch === name ? [each.path] : []));
  const target = contentsPath(reference, undefined, branch ?? undefined);
  const tag = subject.archive.headers['etag'];
  const facts = await examineArchive(subject.archive.body, paths(branch));
  const names = [...new Set(subject.workbooks.map((each) => each.branch))];
  const branches: Array<ContentsSeen['branches'][number]> = [];
  for (const name of names.slice(0, MOST_BRANCHES)) {
    const answer =
      name === branch
        ? subject.archive
        : await asker.current(contentsPath(reference, undefined, name), whole);
    branches.push({ facts: await examineArchive(answer.body, paths(name)), tag: answer.headers['etag'] });
  }
  const omitted = branch === null ? subject.archive : await asker.current(contentsPath(reference), whole);
  return {
    subject,
    facts,
    omitted: await examineArchive(omitted.body, []),
    omittedTag: omitted.headers['etag'],
    branches,
    listedBranches: names.length,
    absentBranch: await asker.current(contentsPath(reference, undefined, MISSING)),
    absentPath: await asker.current(
      contentsPath(reference, `${MISSING}/${MISSING}.xlsx`, branch ?? undefined),
    ),
    again: await asker.current(target, whole),
    slash: await asker.current(target.replace('/contents', '/contents/')),
    head: await asker.current(target, { method: 'HEAD' }),
    conditional:
      tag === undefined ? null : await asker.current(target, { headers: { 'if-none-match': tag } }),
    folder: await askForFolder(asker, subject, facts),
    file: await askForFile(asker, subject, facts),
  };
}

/** The path of a file in the repository: a folder around everything is taken off. */
function innerPaths(facts: ArchiveFacts | null): string[] {
  const paths = [...(facts?.files.keys() ?? [])];
  return facts?.leadingFolder === 'wrapped' ? paths.map((path) => path.slice(path.indexOf('/') + 1)) : paths;
}

async function askForFolder(
  asker: Asker,
  subject: SubjectSeen,
  facts: ArchiveFacts | null,
): Promise<FolderSeen | null> {
  const path = innerPaths(facts)
    .find((each) => each.includes('/'))
    ?.split('/')[0];
  if (path === undefined) return null;
  const target = contentsPath(subject.reference, path, subject.branch ?? undefined);
  const answer = await asker.current(target, { maxBytes: asker.maxDownloadBytes });
  const slashed = contentsPath(subject.reference, `${path}/`, subject.branch ?? undefined);
  return { path, answer, facts: await examineArchive(answer.body, []), slash: await asker.current(slashed) };
}

async function askForFile(
  asker: Asker,
  subject: SubjectSeen,
  facts: ArchiveFacts | null,
): Promise<FileSeen | null> {
  const paths = innerPaths(facts);
  const listed = new Set(subject.workbooks.map((each) => each.path));
  const path = paths.find((each) => listed.has(each)) ?? paths[0];
  if (path === undefined) return null;
  const target = contentsPath(subject.reference, path, subject.branch ?? undefined);
  const answer = await asker.current(target, { maxBytes: asker.maxDownloadBytes });
  const tag = answer.headers['etag'];
  return {
    path,
    answer,
    head: await asker.current(target, { method: 'HEAD' }),
    conditional:
      tag === undefined ? null : await asker.current(target, { headers: { 'if-none-match': tag } }),
    range: await asker.current(target, { headers: { range: 'bytes=1-3' }, maxBytes: asker.maxDownloadBytes }),
    compressed: await asker.current(target, {
      headers: { 'accept-encoding': 'gzip, br' },
      maxBytes: asker.maxDownloadBytes,
    }),
  };
}
