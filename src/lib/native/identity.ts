import { lastError, openLibc } from './library.ts';

/** Leaves an id as it is (setresuid(2)). */
const SAME = 0xffff_ffff;

/**
 * Makes a function that does a short step, such as starting a program, while the real user and group are the effective ones, too. A
 * program that is started otherwise could become the real user again, and shells do (POSIX, sh, without `-p`).
 */
export function bindRealUser() {
  const libc = openLibc();
  const setresuid = libc.func('int setresuid(unsigned int real, unsigned int effective, unsigned int saved)');
  const setresgid = libc.func('int setresgid(unsigned int real, unsigned int effective, unsigned int saved)');
  const become = (uid = SAME, gid = SAME): void => {
    if (setresgid(gid, SAME, SAME) !== 0) throw lastError('setresgid');
    if (setresuid(uid, SAME, SAME) !== 0) throw lastError('setresuid');
  };
  return <T>(step: () => T): T => {
    const before = [process.getuid?.(), process.getgid?.()] as const;
    become(process.geteuid?.(), process.getegid?.());
    try {
      return step();
    } finally {
      become(...before);
    }
  };
}
