import { createReadStream } from 'node:fs';

import type { Command } from 'commander';

import type { RequestOf } from '../../app/tasks/requests.ts';
import { systemCode } from '../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { readBody, RequestError } from '../../lib/http/request.ts';
import { counted } from '../../lib/text/humanize.ts';
import type { TerminalText } from '../../lib/text/terminal-text.ts';
import type { RepositoryList } from '../../mirror/upstream/lists.ts';
import { type Outcome, table, textOf } from '../frame/output.ts';
import { runOnce, taskRunner } from '../frame/task-runners.ts';

/** `repos list` */
export async function runReposList(command: Command): Promise<Outcome> {
  const list = await runOnce(command, 'repos', {});
  return { data: list.repositories, text: () => describeRepositories(list) };
}

/** `repos create`. This process does it if there is a password, because no secret goes through the control socket. */
export async function runReposCreate(command: Command): Promise<Outcome> {
  const wanted = await repositoryOf(command.opts<CreateFlags>());
  const made = await ('password' in wanted
    ? taskRunner(command).run('repos/create', wanted)
    : runOnce(command, 'repos/create', wanted));
  return { data: made, text: () => describeRepositories({ repositories: [made], problems: [] }) };
}

/** Describes repositories to a person. */
function describeRepositories({
  repositories,
  problems,
}: Pick<RepositoryList, 'repositories' | 'problems'>): TerminalText {
  const rows = repositories.map((repository) => [
    repository.fullName,
    repository.url === null ? 'drag-and-drop' : 'Git',
    repository.createdAt ?? '-',
    repository.id,
  ]);
  return textOf(
    rows.length > 0 && [table(['FULL NAME', 'KIND', 'CREATED', 'ID'], rows), ''],
    `${counted(rows.length, 'repository', 'repositories')}.`,
    problems,
  );
}

/** The flags of `repos create`; `passwordFile` is `-` for standard input. */
type CreateFlags = Readonly<Partial<Record<'name' | 'url' | 'username' | 'passwordFile', string>>>;

/** Decides about the request. @throws MirrorError `usage.invalid` if a flag is missing, or the password */
export async function repositoryOf({
  name,
  url,
  username,
  passwordFile,
}: CreateFlags): Promise<RequestOf<'repos/create'>> {
  if (name !== undefined) return { name };
  if (url === undefined) {
    const hint = 'Give --name NAME for a drag-and-drop repository, --url URL for a Git repository.';
    throw invalid('repos create needs --name or --url.', hint);
  }
  if (username === undefined && passwordFile === undefined) return { url };
  if (username === undefined || passwordFile === undefined)
    throw invalid('--username and --password-file go together.', 'Git asks for both.');
  return { url, username, password: await readPassword(passwordFile) };
}

/** Far longer than any password, in bytes: a wrong path must not fill the memory. */
const LIMIT_BYTES = 65_536;

/** Reads the file of a password. Errors do not name the path: a user may have given the password itself instead. */
async function readPassword(path: string): Promise<string> {
  const stream = path === '-' ? process.stdin : createReadStream(path);
  const body = await readBody(stream, LIMIT_BYTES).catch((error: unknown) => {
    const isLong = error instanceof RequestError;
    const why = isLong
      ? 'is too long for a password'
      : `cannot be read (${systemCode(error) ?? 'unknown error'})`;
    const hint = 'Give the path of a file that holds the password, or - for standard input.';
    throw invalid(`--password-file: ${why}.`, hint);
  });
  const password = body.toString().replace(/\r?\n$/, '');
  if (password !== '') return password;
  throw invalid('--password-file is empty.', 'Write the password into it, on one line.');
}

function invalid(message: string, hint: string): MirrorError {
  return new MirrorError('usage.invalid', message, { hint });
}
