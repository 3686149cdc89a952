"""Batch semantic rename through rust-analyzer: all renames against one snapshot, applied at once."""
import json,os,re,subprocess,sys,threading,time,collections,urllib.parse
ROOT=sys.argv[1]; TABLES=[a for a in sys.argv[2:] if not a.startswith('-')]; DRY='--dry' in sys.argv
RA=os.environ.get('RUST_ANALYZER','rust-analyzer')
def uri(p): return 'file://'+urllib.parse.quote(os.path.join(ROOT,p))
def path(u): return os.path.relpath(urllib.parse.unquote(u[len('file://'):]),ROOT)
env=dict(os.environ); env['RUSTUP_TOOLCHAIN']='1.95.0'
proc=subprocess.Popen([RA],stdin=subprocess.PIPE,stdout=subprocess.PIPE,stderr=subprocess.DEVNULL,cwd=ROOT,env=env)
lock=threading.Lock(); pend={}; nid=[0]; status={'q':False}
def send(m):
    b=json.dumps(m).encode()
    with lock: proc.stdin.write(b'Content-Length: %d\r\n\r\n'%len(b)+b); proc.stdin.flush()
def reader():
    while True:
        n=None
        while True:
            l=proc.stdout.readline()
            if not l: return
            l=l.strip()
            if not l: break
            if l.lower().startswith(b'content-length'): n=int(l.split(b':')[1])
        m=json.loads(proc.stdout.read(n))
        if 'id' in m and 'method' in m:
            meth=m['method']
            if meth=='workspace/configuration': send({'jsonrpc':'2.0','id':m['id'],'result':[None for _ in m['params']['items']]})
            else: send({'jsonrpc':'2.0','id':m['id'],'result':None})
        elif 'id' in m:
            e,slot=pend.pop(m['id'],(None,None))
            if e: slot.append(m); e.set()
        elif m.get('method')=='experimental/serverStatus':
            status['q']=m['params'].get('quiescent',False); status['h']=m['params']
        elif m.get('method')=='$/progress':
            v=m['params']['value']
            if v.get('kind')=='begin': print('ra:',v.get('title'),flush=True)
def req(method,params,timeout=900):
    nid[0]+=1; i=nid[0]; e=threading.Event(); slot=[]; pend[i]=(e,slot)
    send({'jsonrpc':'2.0','id':i,'method':method,'params':params})
    if not e.wait(timeout): raise TimeoutError(method)
    return slot[0]
threading.Thread(target=reader,daemon=True).start()
opts={'checkOnSave':False,'cargo':{'features':'all','allTargets':True,'buildScripts':{'enable':True,'useRustcWrapper':True}},'procMacro':{'enable':True},'cachePriming':{'enable':True},'files':{'watcher':'client','exclude':['target','fuzz']},'lru':{'capacity':1024}}
r=req('initialize',{'processId':os.getpid(),'rootUri':uri('').rstrip('/'),'workspaceFolders':[{'uri':uri('').rstrip('/'),'name':'r'}],
 'capabilities':{'workspace':{'workspaceEdit':{'documentChanges':True,'resourceOperations':['create','rename','delete']},'configuration':False},
 'textDocument':{'documentSymbol':{'hierarchicalDocumentSymbolSupport':True},'rename':{'prepareSupport':True}},'window':{'workDoneProgress':True},'experimental':{'serverStatusNotification':True},'general':{'positionEncodings':['utf-8']}},'initializationOptions':opts})
assert 'result' in r, r
enc=r['result']['capabilities'].get('positionEncoding'); print('encoding',enc)
send({'jsonrpc':'2.0','method':'initialized','params':{}})
t0=time.time()
time.sleep(5)
while not status['q']:
    time.sleep(1)
    if time.time()-t0>1500: print('not quiescent',status); break
print('ready after',round(time.time()-t0),status,flush=True)
syms={}
def symbols(f):
    if f not in syms:
        r=req('textDocument/documentSymbol',{'textDocument':{'uri':uri(f)}}); syms[f]=r.get('result') or []
    return syms[f]
K={'type':{5,10,11,23,26,7,13},'const':{14,13},'fn':{12,6,9},'mod':{2,3},'variant':{22},'field':{8}}
def walk(ss,parents=()):
    for s in ss:
        yield s,parents
        yield from walk(s.get('children') or [],parents+(s,))
def find(kind,f,sym):
    out=[]
    if '::' in sym or ('.' in sym):
        owner,name=re.split(r'::|\.',sym)[-2:]
    else: owner,name=None,sym
    for s,ps in walk(symbols(f)):
        if s['name']!=name: continue
        k=s['kind']
        if kind=='type' and k not in (5,10,11,23,26): continue
        if kind=='fn' and k not in (12,6,9): continue
        if kind=='const' and k not in (14,13): continue
        if kind=='mod' and k not in (2,3): continue
        if kind=='variant' and k!=22: continue
        if kind=='field' and k!=8: continue
        pn=ps[-1]['name'] if ps else None
        if owner is None:
            if kind in('fn','const') and pn and (pn.startswith('impl') ): continue
            out.append(s)
        else:
            if not pn: continue
            base=re.sub(r'<.*?>','',re.sub(r'<[^<>]*>','',re.sub(r'<[^<>]*>','',pn)))
            if base==owner: out.append(s); continue
            if pn.startswith('impl'):
                b=base.replace('impl','',1).strip()
                tgt=b.split(' for ')[-1].strip() if ' for ' in b else b
                tgt=tgt.lstrip('&').strip().split('::')[-1]
                if tgt==owner: out.append((0 if ' for ' not in b else 1,s))
    direct=[x for x in out if not isinstance(x,tuple)]
    if direct: return direct
    inh=[x[1] for x in out if isinstance(x,tuple) and x[0]==0]
    return inh or [x[1] for x in out if isinstance(x,tuple)]
rows=[]
for t in TABLES:
    for n,l in enumerate(open(t)):
        l=l.rstrip('\n')
        if not l.strip() or l.startswith('#'): continue
        p=[x.strip() for x in l.split('\t')]
        if len(p)<4: print('BAD',t,n+1,l); continue
        rows.append((t,p[0],p[1],p[2],p[3]))
edits=collections.defaultdict(dict) # file -> {(sl,sc,el,ec): (new, row)}
moves={}
conf=0; fails=[]
t0=time.time()
for i,(t,kind,f,sym,new) in enumerate(rows):
    if not os.path.exists(os.path.join(ROOT,f)): fails.append((kind,f,sym,new,'no file')); continue
    old=re.split(r'::|\.',sym)[-1]
    if old==new: continue
    c=find(kind,f,sym)
    if len(c)==0: fails.append((kind,f,sym,new,'not found')); continue
    if len(c)>1 and kind!='fn': fails.append((kind,f,sym,new,'ambiguous %d'%len(c)))
    for s in c[:1]:
        pos=s['selectionRange']['start']
        try: r=req('textDocument/rename',{'textDocument':{'uri':uri(f)},'position':pos,'newName':new},300)
        except TimeoutError: fails.append((kind,f,sym,new,'timeout')); continue
        if 'error' in r or not r.get('result'): fails.append((kind,f,sym,new,str(r.get('error',{}).get('message')))); continue
        for ch in r['result'].get('documentChanges',[]):
            if ch.get('kind')=='rename': moves[path(ch['oldUri'])]=path(ch['newUri']); continue
            if 'textDocument' not in ch: print('?',ch); continue
            p=path(ch['textDocument']['uri'])
            if p.startswith('..'): fails.append((kind,f,sym,new,'outside '+p)); continue
            for e in ch['edits']:
                a,b=e['range']['start'],e['range']['end']
                k=(a['line'],a['character'],b['line'],b['character'])
                prev=edits[p].get(k)
                if prev and prev[0]!=e['newText']:
                    conf+=1; fails.append((kind,f,sym,new,'conflict %s:%d with %s (%s vs %s)'%(p,a['line']+1,prev[1],prev[0],e['newText'])))
                    continue
                edits[p][k]=(e['newText'],sym)
    if i%200==199: print(i+1,'of',len(rows),round(time.time()-t0),'s',flush=True)
print('rows',len(rows),'files',len(edits),'edits',sum(map(len,edits.values())),'moves',len(moves),'fails',len(fails),'in',round(time.time()-t0))
for x in fails: print('FAIL',*x)
json.dump({'edits':{p:[list(k)+[v[0],v[1]] for k,v in e.items()] for p,e in edits.items()},'moves':moves,'fails':fails},open(os.path.join(os.path.dirname(os.path.abspath(__file__)),'plan.json'),'w'))
proc.kill()
if DRY: sys.exit(0)
for p,e in edits.items():
    fp=os.path.join(ROOT,p); data=open(fp,'rb').read(); lines=data.split(b'\n')
    starts=[0]
    for l in lines: starts.append(starts[-1]+len(l)+1)
    def off(l,c):
        if enc=='utf-8': return starts[l]+c
        s=lines[l].decode(); o=0;u=0
        for ch in s:
            if u>=c: break
            u+=1 if ord(ch)<0x10000 else 2; o+=len(ch.encode())
        return starts[l]+o
    items=sorted(((off(k[0],k[1]),off(k[2],k[3]),v[0].encode()) for k,v in e.items()),reverse=True)
    last=None
    for a,b,n in items:
        if last is not None and b>last: print('OVERLAP',p,a,b); continue
        data=data[:a]+n+data[b:]; last=a
    open(fp,'wb').write(data)
for o in sorted(moves,key=lambda x:-x.count('/')):
    s,d=os.path.join(ROOT,o),os.path.join(ROOT,moves[o])
    if os.path.exists(s):
        os.makedirs(os.path.dirname(d),exist_ok=True)
        subprocess.run(['git','mv',s,d],cwd=ROOT,check=False)
