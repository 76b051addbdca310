#!/usr/bin/env bash
# gpt-tokenizer 4.0.0 and js-tiktoken 1.0.21 (npm), encoding of gpt-4o, 2026-11-30.
# Guess: the count of a chat follows OpenAI's rule: 3 tokens for each message and 3 for the answer, the tokens of role
# and content, and those of a name and 1 more.
# So: without names it does. A name takes the place of the role instead, so that each message with one counts 2 tokens
# fewer.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
echo '{}' > package.json
npm install --silent --no-audit --no-fund --ignore-scripts --prefix . gpt-tokenizer@4.0.0 js-tiktoken@1.0.21 \
  > install.log
cat > probe.mjs <<'EOF'
import { countTokens, encodeChat } from 'gpt-tokenizer/model/gpt-4o';
import { getEncoding } from 'js-tiktoken';
const encoding = getEncoding('o200k_base');
const lengthOf = (text) => encoding.encode(text).length;
const costOf = ({ role, content, name }) =>
  3 + lengthOf(role) + lengthOf(content) + (name === undefined ? 0 : 1 + lengthOf(name));
const chats = {
  'no names': [{ role: 'system', content: 'Answer in one word.' }, { role: 'user', content: 'Which way is north?' }],
  'one name': [{ role: 'user', name: 'alice', content: 'Which way is north?' }],
  'two names': [
    { role: 'user', name: 'alice', content: 'Which way is north?' },
    { role: 'user', name: 'bob', content: 'And south?' },
  ],
};
for (const [title, chat] of Object.entries(chats)) {
  const byRule = chat.reduce((sum, message) => sum + costOf(message), 3);
  console.log(title, 'by rule', byRule, 'encodeChat', encodeChat(chat).length, 'countTokens', countTokens(chat));
}
EOF
node probe.mjs > seen
diff - seen <<'EOF'
no names by rule 21 encodeChat 21 countTokens 21
one name by rule 14 encodeChat 12 countTokens 12
two names by rule 23 encodeChat 19 countTokens 19
EOF
