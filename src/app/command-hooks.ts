import type { SettingsFor } from '../config/schema.ts';
import { MirrorError, toMirrorError } from '../lib/errors/errors.ts';
import { scrub } from '../lib/text/scrub.ts';
import type { PassContext, StagedState } from '../mirror/pass/context.ts';
import type { Published } from '../mirror/plan/record.ts';
import type { HookTree } from '../mirror/state/state.ts';
import { layoutOf, manifestPath, type DirectoryLayout, treePath } from '../mirror/store/layout.ts';
import { type ManifestFile, treeChanges } from '../mirror/store/manifest.ts';
import { secretsOf } from '../config/secret.ts';
import { findProgram, runCommand, withLine } from '../lib/process/command.ts';

/** A command and its timeout, in milliseconds. */
export type HookCommand = NonNullable<ReturnType<typeof commandOf>>;

/** The command of one of the two settings; null for none. */
export function commandOf({ hooks }: SettingsFor<never>, name: 'afterPublish' | 'beforePublish') {
  const words = hooks[name];
  return words === undefined ? null : { words, timeoutMs: hooks.timeout };
}

/**
 * Makes sure that the command of a setting can be run.
 * @returns its program; undefined without a command
 * @throws MirrorError `settings.invalid`
 */
export async function checkCommand(
  { hooks }: SettingsFor<never>,
  name: 'afterPublish' | 'beforePublish',
): Promise<string | undefined> {
  const [program] = hooks[name] ?? [];
  if (program === undefined) return undefined;
  try {
    await findProgram(program, cleanEnvironment(process.env)['PATH'] ?? '');
    return program;
  } catch (error) {
    const { message, hint } = toMirrorError(error);
    throw new MirrorError('settings.invalid', `hooks.${name}: ${message}`, { cause: error, hint });
  }
}

/**
 * The variables of this process that a command gets: basic ones that programs need, and none that could be a secret, so
 * no settings of this program and no proxy with its password.
 */
const PASSED_ON = /^(?:PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_[A-Z]+|TZ|TMPDIR)$/;

/** Default search path of programs (Filesystem Hierarchy Standard). */
const USUAL_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/** The environment of a command before its own variables. */
export function cleanEnvironment(
  environment: Readonly<Record<string, string | undefined>>,
): Record<string, string> {
  const clean: Record<string, string> = { PATH: USUAL_PATH };
  for (const [name, value] of Object.entries(environment)) {
    if (value !== undefined && PASSED_ON.test(name)) clean[name] = value;
  }
  return clean;
}

/** A tree as the command receives it. */
export function hookTree(
  tree: Pick<Published, 'repository' | 'branch' | 'publishedAtMs' | 'fingerprint'>,
): HookTree {
  const { repository, branch, publishedAtMs, fingerprint } = tree;
  return { repositoryId: repository.id, repository: repository.fullName, branch, publishedAtMs, fingerprint };
}

/** A published change of one file of a tree. */
export interface FileChange {
  readonly change: 'added' | 'changed' | 'removed';
  /** Path below the tree, with slashes. */
  readonly path: string;
  /** The file's present version, if it is a workbook; absent for other and removed files. */
  readonly version?: string | undefined;
}

/** The files that differ between two manifests: added, then changed, then removed files. */
export function changedFiles(before: readonly ManifestFile[], after: readonly ManifestFile[]): FileChange[] {
  const { added, changed, removed } = treeChanges(before, after);
  const versions = new Map(after.map(({ path, workbook }) => [path, workbook?.versionId]));
  const each = (change: FileChange['change'], paths: readonly string[]): FileChange[] =>
    paths.map((path) => ({ change, path, version: versions.get(path) }));
  return [...each('added', added), ...each('changed', changed), ...each('removed', removed)];
}

/** The changes in the form for a command: one JSON object per line. */
export function* changeLines(changes: readonly FileChange[]): Generator<string> {
  for (const each of changes) yield `${JSON.stringify(each)}\n`;
}

/** News for a command: a tree waits to be published, has a new state, has moved, or has left the mirror. */
export interface TreeNews {
  readonly event: 'staged' | 'published' | 'moved' | 'retired';
  /** `<repository>/<branch>`, below `mirror/`. */
  readonly target: string;
  /** The former path of the tree, if it moved. */
  readonly movedFrom: string | null;
  /** The tree at that path, or the one that left. */
  readonly tree: HookTree;
  /** The state that the command was last notified of; null for none. */
  readonly before: HookTree | null;
}

/**
 * The place, environment and input of a command. NUL is removed from the service's names: no variable can hold it.
 * @param changes the changed files; null if unknown
 * @param folder the folder that it runs in
 */
export function hookRun(
  layout: DirectoryLayout,
  { event, target, movedFrom, tree, before }: TreeNews,
  changes: readonly FileChange[] | null,
  folder: string,
) {
  const variables = {
    MIRROR_HOOK: event === 'staged' ? 'beforePublish' : 'afterPublish',
    MIRROR_EVENT: event,
    MIRROR_TARGET: target,
    MIRROR_REPOSITORY: tree.repository,
    MIRROR_REPOSITORY_ID: tree.repositoryId,
    MIRROR_BRANCH: tree.branch,
    MIRROR_DIRECTORY: layout.root,
    MIRROR_TREE: treePath(layout, target),
    MIRROR_MANIFEST: manifestPath(layout, target),
    MIRROR_FINGERPRINT: event === 'retired' ? '' : (tree.fingerprint ?? ''),
    MIRROR_PREVIOUS_FINGERPRINT: before?.fingerprint ?? '',
    MIRROR_CHANGES: changes === null ? 'unknown' : 'known',
    ...(event === 'staged' ? { MIRROR_STAGE: folder } : {}),
    ...(movedFrom === null ? {} : { MIRROR_MOVED_FROM: movedFrom }),
  };
  const environment = cleanEnvironment(process.env);
  for (const [name, value] of Object.entries(variables)) environment[name] = value.replaceAll('\0', '');
  return { cwd: folder, environment, input: changeLines(changes ?? []) };
}

/** As {@link hookRun}, for a new state, whose files are known. */
export function runForState(
  event: 'staged' | 'published',
  layout: DirectoryLayout,
  { target, manifest, previous, folder }: StagedState,
) {
  const before = previous && hookTree(previous);
  const changes = changedFiles(previous?.files ?? [], manifest.files);
  return hookRun(
    layout,
    { event, target, movedFrom: null, tree: hookTree(manifest), before },
    changes,
    folder,
  );
}

/** How often a running command counts as progress, in milliseconds: it has its own time limit. */
const BEAT_MS = 1000;

/** A shell's exit code if a program cannot be run; higher ones if a signal ended it (POSIX, 2.8.2 "Exit Status for Commands"). */
const FIRST_EXIT_CODE_OF_SHELLS = 126;

/**
 * The command from the settings that checks new states before they are published; null for none. Exit code 0 accepts a state.
 * @param onProgress called while the command runs
 * @returns throws MirrorError `publish.refused` for the exit codes 1 to 125, `hook.failed` for everything else, `pass.abandoned`
 */
export function publishGateOf(
  settings: SettingsFor<'directory'>,
  onProgress: () => void,
): PassContext['beforePublish'] {
  const command = commandOf(settings, 'beforePublish');
  if (command === null) return null;
  const layout = layoutOf(settings.directory);
  const masked = (text: string): string => scrub(text, secretsOf(settings));
  return async (state, signal) => {
    const beat = setInterval(onProgress, BEAT_MS);
    try {
      const { exitCode, lastLine } = await runCommand({
        ...command,
        ...runForState('staged', layout, state),
        signal,
      });
      if (exitCode === 0) return;
      if (exitCode >= FIRST_EXIT_CODE_OF_SHELLS)
        throw new MirrorError('hook.failed', withLine(`It ended with exit code ${exitCode}`, lastLine));
      const sentence = `The command hooks.beforePublish refuses the new state (exit code ${exitCode})`;
      throw new MirrorError('publish.refused', masked(withLine(sentence, lastLine)), {
        hint: 'The published tree stays. The new state is tried again when its version changes, after an hour, or at once by `retry`.',
      });
    } catch (error) {
      if (!(error instanceof MirrorError) || error.code !== 'hook.failed') throw error;
      // The message of a failed target does not name the command.
      const message = masked(`The command hooks.beforePublish failed: ${error.message}`);
      const hint = 'Nothing was published. `config show` says which command it is.';
      throw new MirrorError('hook.failed', message, { cause: error, hint });
    } finally {
      clearInterval(beat);
    }
  };
}
