import re,sys,os,collections,subprocess
root=sys.argv[1] if len(sys.argv)>1 else '.'
files=subprocess.check_output(['git','ls-files','*.rs'],cwd=root,text=True).split()
TY=re.compile(r'^\s*(?:pub(?:\([^)]*\))?\s+)?(?:struct|enum|union|trait|type)\s+([A-Z]\w*)',re.M)
def istest(f):
    return '/tests/' in f or f.endswith('/tests.rs') or '/fuzz/' in f or f.startswith('fuzz/') or '/benches/' in f
decl=collections.defaultdict(list)
docs=0;short=0
for f in files:
    t=open(os.path.join(root,f)).read()
    # doc comment blocks
    block=[]
    for line in t.split('\n')+['']:
        s=line.strip()
        if s.startswith('///') and not s.startswith('////'):
            block.append(s[3:].strip())
        else:
            if block:
                docs+=1
                if len(' '.join(block).split())<4: short+=1
            block=[]
    if istest(f): continue
    # skip assoc types in impl/trait: indentation >0 'type X'
    depth=0
    for m in TY.finditer(t):
        line=m.group(0)
        ind=len(line.lstrip('\n'))-len(line.lstrip())
        if ' type ' in ' '+line and ind>0: continue
        decl[m.group(1)].append(f+':'+str(t.count('\n',0,m.start(1))+1))
total=sum(len(v) for v in decl.values())
dup=sum(len(v) for v in decl.values() if len(set(x.split(':')[0] for x in v))>1)
dup3=sum(len(v) for v in decl.values() if len(set(x.split(':')[0] for x in v))>2)
print('types',total,'shared',dup,round(100*dup/total,1),'%  >2:',dup3,' names>2:',sum(1 for v in decl.values() if len(v)>2))
print('docs',docs,'short',short)
if '-v' in sys.argv:
    for n,v in sorted(decl.items(),key=lambda x:-len(x[1])):
        if len(v)>1: print(len(v),n,' '.join(v))
