'use strict';
// The vendor's Node SDK of queues. Reads commands from its input, a JSON object a line, and answers each with an event:
// `answer` with its value, or `refused`. NODE_PATH tells where the SDK is installed.
const readline = require('readline');
const MNS = require('@alicloud/mns');

const clients = {};

function print(event) {
  process.stdout.write(JSON.stringify(event) + '\n');
}

async function carryOut(command) {
  if (command.do === 'connect') {
    const options = {
      accessKeyId: command.id, accessKeySecret: command.secret, endpoint: command.endpoint, securityToken: command.token,
    };
    if (command.refreshed) {
      options.refreshSTSToken = async () => command.refreshed;
      options.refreshSTSTokenInterval = 0;
    }
    clients[command.as] = new MNS('1234567890123456', options);
    return null;
  }
  const value = await clients[command.as][command.do](...(command.arguments || []));
  return value === undefined ? null : value;
}

async function answer(command) {
  try {
    print({event: 'answer', n: command.n, value: await carryOut(command)});
  } catch (error) {
    // The SDK puts the service's code into the error's name: MNS<code>Error.
    const code = (/^MNS(\w+)Error$/.exec(error.name) || [])[1] || '';
    const request = (/requestid: (\w+)/.exec(error.message) || [])[1] || '';
    print({event: 'refused', n: command.n, kind: error.name, code, message: error.message, request});
  }
}

readline.createInterface({input: process.stdin})
  .on('line', (line) => answer(JSON.parse(line)))
  .on('close', () => process.exit(0));
print({event: 'ready'});
