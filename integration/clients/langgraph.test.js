import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createReactAgent } from '@langchain/langgraph/prebuilt';
import { scenes } from '../world/scenes.js';
import { World } from '../world/world.js';
import { connect } from './langgraph.js';

let world;
before(async () => { world = await World.open(); });
after(() => world.close());

for (const useResponsesApi of [false, true]) {
	scenes(`LangGraph, ${useResponsesApi ? 'responses' : 'chat'}`, () => world, async (c, prompt) => {
		const { client, tools, model } = await connect({ ...c.connection, model: c.model, useResponsesApi });
		const { messages } = await createReactAgent({ llm: model, tools }).invoke({ messages: [{ role: 'user', content: prompt }] });
		await client.close();
		return messages.at(-1).text;
	});
}
