/**
 * The variables of this process that a command gets: what programs need to find their way, and nothing that could be a secret, so
 * none of this program's settings and no proxy with its password.
 */
const PASSED_ON = /^(?:PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_[A-Z]+|TZ|TMPDIR)$/;

/** Where programs are looked for if nothing says so (Filesystem Hierarchy Standard). */
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

/** What a command is told of a target in its environment. */
export interface HookVariables {
  readonly MIRROR_HOOK: 'afterPublish' | 'beforePublish';
  readonly MIRROR_EVENT: string;
  readonly MIRROR_TARGET: string;
  readonly MIRROR_REPOSITORY: string;
  readonly MIRROR_REPOSITORY_ID: string;
  readonly MIRROR_BRANCH: string;
  readonly MIRROR_DIRECTORY: string;
  readonly MIRROR_TREE: string;
  readonly MIRROR_MANIFEST: string;
  readonly MIRROR_STAGE?: string;
  readonly MIRROR_MOVED_FROM?: string;
  readonly MIRROR_FINGERPRINT: string;
  readonly MIRROR_PREVIOUS_FINGERPRINT: string;
  readonly MIRROR_CHANGES: 'known' | 'unknown';
}

/** The whole environment of a command. NUL, which no variable can hold, is left out of what the service named so. */
export function hookEnvironment(
  environment: Readonly<Record<string, string | undefined>>,
  variables: HookVariables,
): Record<string, string> {
  const whole = cleanEnvironment(environment);
  for (const [name, value] of Object.entries(variables)) whole[name] = String(value).replaceAll('\0', '');
  return whole;
}
