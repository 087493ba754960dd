/**
 * A completion for zsh (zshcompsys(1)): a file of the name `_workbook-mirror` in a folder of `fpath`, or sourced after
 * `compinit`.
 */
export function zshCompletion(): string {
  return `#compdef workbook-mirror
# Completion of workbook-mirror for zsh, written by \`workbook-mirror completion zsh\`.

_workbook-mirror() {
  local word
  local -a line answer found shown flat
  for word in "\${(@)words[2,CURRENT-1]}"; do
    [[ $word != '~' && $word != '~/'* ]] || word=\${(q)HOME}\${word#\\~}
    line+=("\${(Q)word}")
  done
  answer=("\${(@f)$(printf '%s\\0' "\${line[@]}" "$PREFIX" | workbook-mirror completion words 2>/dev/null)}")
  case $answer[1] in
    file) compset -P '--*='; _files ;;
    folder) compset -P '--*='; _files -/ ;;
    words)
      found=("\${(@)answer[2,-1]%%$'\\t'*}")
      shown=("\${(@)answer[2,-1]//$'\\t'/  -- }")
      [[ "$answer[2]" != *$'\\t'* ]] || flat=(-l)
      compadd $flat -d shown -a found ;;
  esac
}

if [ "$funcstack[1]" = "_workbook-mirror" ]; then
  _workbook-mirror "$@"
else
  compdef _workbook-mirror workbook-mirror
fi
`;
}
