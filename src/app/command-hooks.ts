import type { SettingsFor } from '../config/schema.ts';
import { MirrorError, toMirrorError } from '../lib/errors/errors.ts';
import { scrub } from '../lib/text/scrub.ts';
import type { PassContext, StagedState } from '../mirror/pass/context.ts';
import type { HookTree } from '../mirror/state/state.ts';
import { layoutOf, manifestPath, type DirectoryLayout, treePath } from '../mirror/store/layout.ts';
import { secretsOf } from '../config/secret.ts';
import { changedFiles, changeLines, hookTree } from './published-changes.ts';
import { findProgram, runCommand, withLine } from '../lib/process/command.ts';

/** A command and its timeout, in milliseconds. */
export type HookCommand = NonNullable<ReturnType<typeof commandOf>>;

/** The command of one of the two settings; null for none. */
export function commandOf({ hooks }: SettingsFor<never>, name: 'afterPublish' | 'beforePublish') {
  const words = hooks[name];
  return words === undefined ? null : { words, timeoutMs: hooks.timeout };
}

/** The facts about the mirror that both commands need. */
export type HookSurroundings = ReturnType<typeof surroundingsOf>;

/** The context of commands. @param current gives the settings in force */
export function surroundingsOf(current: () => SettingsFor<'directory'>) {
  return {
    layout: layoutOf(current().directory),
    /** Masks the secrets in a text. */
    scrub: (text: string): string => scrub(text, secretsOf(current())),
  };
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

/**
 * The environment of a command. NUL is removed from the service's names: no variable can hold it.
 * @param own the variables that only one of the two commands gets, or that depend on the state
 */
export function hookEnvironment(
  environment: Readonly<Record<string, string | undefined>>,
  layout: DirectoryLayout,
  target: string,
  { repository, repositoryId, branch }: HookTree,
  own: Readonly<Record<`MIRROR_${string}`, string>>,
): Record<string, string> {
  const variables = {
    ...own,
    MIRROR_TARGET: target,
    MIRROR_REPOSITORY: repository,
    MIRROR_REPOSITORY_ID: repositoryId,
    MIRROR_BRANCH: branch,
    MIRROR_DIRECTORY: layout.root,
    MIRROR_TREE: treePath(layout, target),
    MIRROR_MANIFEST: manifestPath(layout, target),
  };
  const whole = cleanEnvironment(environment);
  for (const [name, value] of Object.entries(variables)) whole[name] = value.replaceAll('\0', '');
  return whole;
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
  const { layout, scrub: masked } = surroundingsOf(() => settings);
  return async (state, signal) => {
    const beat = setInterval(onProgress, BEAT_MS);
    try {
      const { exitCode, lastLine } = await runCommand({
        ...command,
        ...hookRun('beforePublish', layout, state),
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

/** The place, environment and input of a command for a new state, whose files are known. */
export function hookRun(
  hook: 'afterPublish' | 'beforePublish',
  layout: DirectoryLayout,
  { target, manifest, previous, folder }: StagedState,
) {
  const tree = hookTree(manifest);
  const environment = hookEnvironment(process.env, layout, target, tree, {
    MIRROR_HOOK: hook,
    ...(hook === 'afterPublish'
      ? { MIRROR_EVENT: 'published' }
      : { MIRROR_EVENT: 'staged', MIRROR_STAGE: folder }),
    MIRROR_FINGERPRINT: tree.fingerprint ?? '',
    MIRROR_PREVIOUS_FINGERPRINT: previous?.fingerprint ?? '',
    MIRROR_CHANGES: 'known',
  });
  const input = changeLines(changedFiles(previous?.files ?? [], manifest.files));
  return { cwd: folder, environment, input };
}
