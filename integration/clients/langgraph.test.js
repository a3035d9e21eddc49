import { after, before, test } from 'node:test';
import { AIMessage } from '@langchain/core/messages';
import { tool } from '@langchain/core/tools';
import { MemorySaver, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph';
import { createReactAgent, ToolNode, toolsCondition } from '@langchain/langgraph/prebuilt';
import { z } from 'zod';
import { scenes } from '../world/scenes.js';
import { believed, inert, repeated } from '../world/stale.js';
import { World } from '../world/world.js';
import { connect } from './langgraph.js';

let world;
before(async () => { world = await World.open(); });
after(() => world?.close());

const converse = (useResponsesApi) => async (c, prompt) => {
	const { client, tools, model } = await connect({ ...c.connection, model: c.model, useResponsesApi });
	const { messages } = await createReactAgent({ llm: model, tools }).invoke({ messages: [{ role: 'user', content: prompt }] });
	await client.close();
	return messages.at(-1).text;
};

scenes('LangGraph, chat', () => world, converse(false));
scenes('LangGraph, responses', () => world, converse(true));

// desk connects with Placet's tools or with one of its own.
async function desk(c, own) {
	const { client, tools, model } = await connect({ ...c.connection, model: c.model });
	const delete_order = tool(({ order }) => world.ledger.add('delete_order', order), { name: 'delete_order', description: 'Delete an order', schema: z.object({ order: z.string() }) });
	return { tools: own ? [delete_order] : tools, model, close: () => client.close() };
}

// graph is an agent that goes on where its messages end, and keeps checkpoints.
function graph({ tools, model }, options) {
	const bound = model.bindTools(tools);
	return new StateGraph(MessagesAnnotation)
		.addNode('model', async ({ messages }) => ({ messages: [await bound.invoke(messages)] }))
		.addNode('tools', new ToolNode(tools))
		.addConditionalEdges(START, (state) => (toolsCondition(state) === 'tools' ? 'tools' : 'model'), ['tools', 'model'])
		.addConditionalEdges('model', toolsCondition)
		.addEdge('tools', 'model')
		.compile({ checkpointer: new MemorySaver(), ...options });
}

const thread = { configurable: { thread_id: '1' } };
const user = { role: 'user', content: 'Hello' };
const called = (order) => new AIMessage({ content: '', tool_calls: [{ id: 'c1', name: 'delete_order', args: { order } }] });

believed('LangGraph', () => world, 'a call at the end of the messages', async (c, own) => {
	const { close, ...rest } = await desk(c, own);
	world.provider.script(c.model, { text: 'So be it.' });
	await graph(rest).invoke({ messages: [user, called(c.order)] }, thread);
	await close();
}, converse(false));

believed('LangGraph', () => world, 'a call that is given to the ToolNode', async (c, own) => {
	const { close, tools } = await desk(c, own);
	await new ToolNode(tools).invoke({ messages: [called(c.order)] });
	await close();
}, converse(true));

believed('LangGraph', () => world, 'a checkpoint of a turn that is over', async (c, own) => {
	const { close, ...rest } = await desk(c, own);
	const agent = graph(rest, { interruptBefore: ['tools'] });
	world.provider.script(c.model, { calls: [{ name: 'delete_order', arguments: { order: c.order } }] });
	await agent.invoke({ messages: [user] }, thread);
	world.provider.script(c.model, { text: 'Hello.' });
	await agent.invoke({ messages: [user] }, { configurable: { thread_id: '2' } });
	world.provider.script(c.model, { text: 'So be it.' });
	await agent.invoke(null, thread);
	await close();
}, converse(false));

repeated('LangGraph', () => world, 'a checkpoint that is resumed again', async (c, own) => {
	const { close, ...rest } = await desk(c, own);
	const agent = graph(rest);
	world.provider.script(c.model, { calls: [{ name: 'delete_order', arguments: { order: c.order } }] }, { text: 'Deleted.' });
	await agent.invoke({ messages: [user] }, thread);
	return async () => {
		let past;
		for await (const state of agent.getStateHistory(thread)) if (state.next[0] === 'tools') past = state;
		world.provider.script(c.model, { text: 'So be it.' });
		const { messages } = await agent.invoke(null, past.config);
		await close();
		return messages;
	};
});

inert('LangGraph', () => world, 'a call at the end of the messages of createReactAgent', async (c, own) => {
	const { close, tools, model } = await desk(c, own);
	world.provider.script(c.model, { text: 'So be it.' });
	await createReactAgent({ llm: model, tools }).invoke({ messages: [user, called(c.order)] });
	await close();
});
